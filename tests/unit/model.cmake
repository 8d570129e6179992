kvlane_add_test(model LABEL unit
                SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/model_presets.cpp ${CMAKE_CURRENT_SOURCE_DIR}/model_hf.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/model_hf_rules.cpp
                DEPENDS scenario kv LINK nlohmann_json::nlohmann_json)
