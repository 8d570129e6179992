kvlane_add_test(report LABEL unit
  SOURCES report/number_format_test.cpp report/result_json_test.cpp report/result_csv_test.cpp
          report/result_table_test.cpp report/compare_test.cpp
  DEPENDS report)
kvlane_add_test(chrome_trace LABEL unit SOURCES report/chrome_trace_test.cpp DEPENDS report)
