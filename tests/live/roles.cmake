# Roles as processes.
find_program(KVLANE_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(KVLANE_PYTHON NAMES python3)
if(KVLANE_PYTHON AND TARGET kvlane)
  foreach(name roles_by_hand kill_roles sim_vs_live)
    add_test(NAME live.${name} COMMAND ${KVLANE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py $<TARGET_FILE:kvlane>
             ${CMAKE_SOURCE_DIR}/scenarios/smoke/live.yaml)
    set_tests_properties(live.${name} PROPERTIES LABELS "live;no-sanitizers" SKIP_RETURN_CODE 77 TIMEOUT 300
                         ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
  endforeach()
  # One round of each kind; more by hand.
  set_tests_properties(live.kill_roles PROPERTIES RUN_SERIAL TRUE)
endif()
