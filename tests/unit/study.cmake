kvlane_add_test(study LABEL unit
  SOURCES study/grid_test.cpp study/crossover_test.cpp study/study_file_test.cpp
  DEPENDS study)
