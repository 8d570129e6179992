kvlane_add_test(calibrate_fit LABEL unit
                SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/calibrate/fit_solver.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/calibrate/fit_machine.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/calibrate/fit_errors.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/calibrate/fit_writer.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/calibrate/fit_predict.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/calibrate/fit_nic.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/calibrate/fit_own.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/calibrate/fit_own_gpu.cpp
                DEPENDS calibrate_fit scenario gpu)
