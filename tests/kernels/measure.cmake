# calibrate/measure: the gate, the timer, the grid and the session under clocks of the tests; then every kernel of the grid
# once on the CPU.
set(measure_tests ${CMAKE_SOURCE_DIR}/tests/unit/calibrate)
kvlane_add_test(calibrate_measure LABEL unit kernels
                SOURCES ${measure_tests}/measure_gate.cpp ${measure_tests}/measure_machine.cpp
                        ${measure_tests}/measure_session.cpp ${measure_tests}/measure_device.cpp
                        ${measure_tests}/measure_shapes.cpp
                DEPENDS calibrate_measure scenario)
