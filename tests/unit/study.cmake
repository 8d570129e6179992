kvlane_add_test(study LABEL unit
  SOURCES study/grid_test.cpp study/crossover_test.cpp study/study_file_test.cpp study/study_check_test.cpp
  DEPENDS study)

# The parts of sim/cli under sweep and paper, with their threads.
if(TARGET kvlane_cli)
  kvlane_add_test(cli_parts LABEL unit threads
    SOURCES cli/output_file_test.cpp cli/progress_test.cpp cli/journal_test.cpp cli/paper_runs_test.cpp cli/draws_test.cpp DEPENDS cli)
endif()

find_program(KVLANE_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(KVLANE_PYTHON NAMES python3)
if(KVLANE_PYTHON AND TARGET kvlane)
  add_test(NAME sweep_cli COMMAND ${KVLANE_PYTHON} ${CMAKE_SOURCE_DIR}/tests/support/check_sweep.py
           $<TARGET_FILE:kvlane> ${CMAKE_SOURCE_DIR}/scenarios/paper/l20-batch6.yaml)
  set_tests_properties(sweep_cli PROPERTIES LABELS cli TIMEOUT 600)
endif()
