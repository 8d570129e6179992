# Compute behind the port: waited for, and by kernels.
kvlane_add_test(live_compute LABEL live threads
                SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/compute_modeled.cpp ${CMAKE_CURRENT_SOURCE_DIR}/compute_kernels.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/compute_cpu.cpp
                DEPENDS live scenario des)
kvlane_add_test(live_work_times LABEL live SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/work_times_test.cpp DEPENDS live)
