# RDMA: the rules everywhere; the backend over Soft-RoCE in a guest, where there is libibverbs to build it and qemu to
# run it.
kvlane_add_test(live_rdma_rules LABEL live threads SOURCES ${CMAKE_CURRENT_LIST_DIR}/rdma_rules_test.cpp
                DEPENDS live_rdma_rules)
if(TARGET kvlane_live_rdma)
  add_executable(verbs_test ${CMAKE_CURRENT_LIST_DIR}/verbs_test.cpp)
  target_link_libraries(verbs_test PRIVATE kvlane_test_main kvlane::live_rdma)
  # A folder of its own: the guest gets all of it.
  set_target_properties(verbs_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/guest)
  if(TARGET tests_live)
    add_dependencies(tests_live verbs_test)
  endif()
  add_test(NAME live.verbs_guest COMMAND ${CMAKE_SOURCE_DIR}/tests/support/rdma_guest/run.sh
           ${CMAKE_CURRENT_BINARY_DIR}/guest ./verbs_test)
  set_tests_properties(live.verbs_guest PROPERTIES LABELS "live;guest" TIMEOUT 180 PROCESSORS 2 SKIP_RETURN_CODE 77)
  add_test(NAME live.rdma_faults_long COMMAND ${CMAKE_SOURCE_DIR}/tests/support/rdma_guest/run.sh
           ${CMAKE_CURRENT_BINARY_DIR}/guest env KVLANE_FAULT_RUNS=500 ./verbs_test -tc=*faults*)
  set_tests_properties(live.rdma_faults_long PROPERTIES LABELS "long" TIMEOUT 600 PROCESSORS 2 SKIP_RETURN_CODE 77
                       ENVIRONMENT KVLANE_GUEST_TIMEOUT_S=570)
  if(TARGET kvlane)
    add_test(NAME live.rdma_roles_guest COMMAND ${CMAKE_CURRENT_LIST_DIR}/rdma_roles.sh $<TARGET_FILE:kvlane>)
    set_tests_properties(live.rdma_roles_guest PROPERTIES LABELS "live;guest;no-sanitizers" TIMEOUT 240 PROCESSORS 2
                         SKIP_RETURN_CODE 77 ENVIRONMENT KVLANE_GUEST_TIMEOUT_S=220)
  endif()
endif()
