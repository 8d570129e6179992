# Sessions that strangers, liars and the dead take part in; what goes over the wire, as bytes; the ends of a measured link.
kvlane_add_test(live_handshake LABEL live SOURCES ${CMAKE_CURRENT_LIST_DIR}/handshake_test.cpp DEPENDS live)
kvlane_add_test(live_link LABEL live SOURCES ${CMAKE_CURRENT_LIST_DIR}/link_test.cpp DEPENDS live)
if(RAPIDCHECK_INCLUDE AND RAPIDCHECK_LIBRARY)
  kvlane_add_test(live_wire LABEL live SOURCES ${CMAKE_CURRENT_LIST_DIR}/wire_test.cpp DEPENDS live
                  LINK ${RAPIDCHECK_LIBRARY})
  target_include_directories(test_live_wire SYSTEM PRIVATE ${RAPIDCHECK_INCLUDE})
endif()
