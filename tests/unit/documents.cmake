find_program(KVLANE_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(KVLANE_PYTHON NAMES python3)
if(KVLANE_PYTHON)
  add_test(NAME analysis_documents COMMAND ${KVLANE_PYTHON} ${CMAKE_SOURCE_DIR}/analysis/tests/test_documents.py)
  set_tests_properties(analysis_documents PROPERTIES LABELS analysis TIMEOUT 60
                       ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endif()
