if(RAPIDCHECK_INCLUDE AND RAPIDCHECK_LIBRARY)
  kvlane_add_test(net_properties LABEL property SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/net_properties.cpp
                  ${CMAKE_CURRENT_SOURCE_DIR}/net_transport_properties.cpp DEPENDS net des LINK ${RAPIDCHECK_LIBRARY})
  target_include_directories(test_net_properties SYSTEM PRIVATE ${RAPIDCHECK_INCLUDE})
endif()

# Without SimGrid the program says so and counts as skipped.
find_path(SIMGRID_INCLUDE simgrid/s4u.hpp)
find_library(SIMGRID_LIBRARY simgrid)
kvlane_add_test(net_simgrid LABEL property SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/net_simgrid.cpp DEPENDS net des)
if(SIMGRID_INCLUDE AND SIMGRID_LIBRARY)
  target_compile_definitions(test_net_simgrid PRIVATE KVLANE_HAVE_SIMGRID)
  target_include_directories(test_net_simgrid SYSTEM PRIVATE ${SIMGRID_INCLUDE})
  target_link_libraries(test_net_simgrid PRIVATE ${SIMGRID_LIBRARY})
endif()
