kvlane_add_test(metrics LABEL unit SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/metrics_times.cpp
                ${CMAKE_CURRENT_SOURCE_DIR}/metrics_collector.cpp DEPENDS metrics)
