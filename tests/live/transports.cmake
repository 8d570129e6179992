# The suite that every wire must pass.
kvlane_add_test(live_tcp LABEL live SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/tcp_test.cpp DEPENDS live)
kvlane_add_test(live_shm LABEL live SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/shm_test.cpp DEPENDS live)
kvlane_add_test(live_modeled_transport LABEL live SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/modeled_transport_test.cpp DEPENDS live)
kvlane_add_test(live_faults LABEL live SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/fault_runs_test.cpp DEPENDS live)
kvlane_add_test(live_wall_loop LABEL live SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/wall_loop_test.cpp DEPENDS live)
