kvlane_add_test(calibrate_validate LABEL unit SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/calibrate/validate.cpp
                DEPENDS calibrate_validate calibrate_fit)
# The figures beside the hardware files, made again where the published tables are.
if(KVLANE_PYTHON AND TARGET kvlane)
  add_test(NAME hardware_validation
           COMMAND ${CMAKE_COMMAND} -E env KVLANE=$<TARGET_FILE:kvlane> KVLANE_TABLES=${CMAKE_SOURCE_DIR}/../shared/data
                   ${KVLANE_PYTHON} ${CMAKE_SOURCE_DIR}/tests/support/check_validation.py)
  set_tests_properties(hardware_validation PROPERTIES LABELS "cli;no-sanitizers" SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
kvlane_add_test(calibrate_tables LABEL unit SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/calibrate/tables.cpp
                DEPENDS calibrate_import gpu)
