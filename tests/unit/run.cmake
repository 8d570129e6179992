kvlane_add_test(run LABEL unit
                SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/run_transfer.cpp ${CMAKE_CURRENT_SOURCE_DIR}/run_decode.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/run_serving.cpp ${CMAKE_CURRENT_SOURCE_DIR}/run_provenance.cpp ${CMAKE_CURRENT_SOURCE_DIR}/run_uncertainty.cpp
                DEPENDS run)
