if(RAPIDCHECK_INCLUDE AND RAPIDCHECK_LIBRARY)
  kvlane_add_test(run_properties LABEL property SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/run_properties.cpp DEPENDS run
                  LINK ${RAPIDCHECK_LIBRARY})
  target_include_directories(test_run_properties SYSTEM PRIVATE ${RAPIDCHECK_INCLUDE})
endif()
