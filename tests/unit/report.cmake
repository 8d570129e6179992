kvlane_add_test(report LABEL unit
  SOURCES report/number_format_test.cpp report/result_json_test.cpp report/result_csv_test.cpp
          report/result_table_test.cpp report/compare_test.cpp
  DEPENDS report)
kvlane_add_test(chrome_trace LABEL unit SOURCES report/chrome_trace_test.cpp DEPENDS report)

# The trace by an independent reader: a sample of the writer, then a real run.
find_program(KVLANE_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(KVLANE_PYTHON NAMES python3)
if(KVLANE_PYTHON)
  set(trace_sample ${CMAKE_CURRENT_BINARY_DIR}/trace_sample.json)
  add_test(NAME chrome_trace_sample COMMAND test_chrome_trace --test-case=*sample*)
  add_test(NAME chrome_trace_check COMMAND ${KVLANE_PYTHON} ${CMAKE_SOURCE_DIR}/tests/support/check_trace.py
           ${trace_sample} --arrows --processes full)
  set_tests_properties(chrome_trace_sample PROPERTIES LABELS unit FIXTURES_SETUP trace_sample
                       ENVIRONMENT "KVLANE_TRACE_SAMPLE=${trace_sample}")
  set_tests_properties(chrome_trace_check PROPERTIES LABELS unit FIXTURES_REQUIRED trace_sample)
endif()
if(KVLANE_PYTHON AND TARGET kvlane)
  set(run_trace ${CMAKE_CURRENT_BINARY_DIR}/run_trace.json)
  add_test(NAME run_trace COMMAND kvlane run ${CMAKE_SOURCE_DIR}/scenarios/paper/l20-batch6.yaml --only full
           --only smartgen --set workload.output_tokens=8 --no-verdict --force --trace ${run_trace})
  add_test(NAME run_trace_check COMMAND ${KVLANE_PYTHON} ${CMAKE_SOURCE_DIR}/tests/support/check_trace.py
           ${run_trace} --arrows --processes full smartgen)
  set_tests_properties(run_trace PROPERTIES LABELS cli FIXTURES_SETUP run_trace)
  set_tests_properties(run_trace_check PROPERTIES LABELS cli FIXTURES_REQUIRED run_trace)
endif()
