kvlane_add_test(scenario LABEL unit
                SOURCES scenario/quantity_test.cpp scenario/schema_test.cpp scenario/override_test.cpp
                        scenario/reader_test.cpp scenario/checks_test.cpp
                        scenario/sample_file_test.cpp
                        scenario/json_text_test.cpp
                DEPENDS scenario LINK nlohmann_json::nlohmann_json)
kvlane_add_test(scenario_files LABEL unit SOURCES scenario/files_test.cpp DEPENDS scenario study
                LINK nlohmann_json::nlohmann_json)
if(RAPIDCHECK_INCLUDE AND RAPIDCHECK_LIBRARY)
  kvlane_add_test(scenario_properties LABEL property SOURCES scenario/properties_test.cpp DEPENDS scenario
                  LINK ${RAPIDCHECK_LIBRARY})
  target_include_directories(test_scenario_properties SYSTEM PRIVATE ${RAPIDCHECK_INCLUDE})
endif()
