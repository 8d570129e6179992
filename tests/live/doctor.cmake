# Made up machines, good and broken.
kvlane_add_test(live_doctor LABEL live SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/doctor.cpp DEPENDS live)
