# Debian's own python first: pandas and matplotlib are its packages. Skipped (77) where they are missing.
find_program(KVLANE_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(KVLANE_PYTHON NAMES python3)
if(KVLANE_PYTHON)
  add_test(NAME analysis_figures COMMAND ${KVLANE_PYTHON} ${CMAKE_SOURCE_DIR}/analysis/tests/test_figures.py)
  set_tests_properties(analysis_figures PROPERTIES LABELS analysis SKIP_RETURN_CODE 77 TIMEOUT 300
                       ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endif()
