kvlane_add_test(net_fluid LABEL unit SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/net_fluid.cpp
                ${CMAKE_CURRENT_SOURCE_DIR}/net_lanes.cpp DEPENDS net des)
kvlane_add_test(net_topology LABEL unit SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/net_topology.cpp DEPENDS net des)
kvlane_add_test(net_transport LABEL unit SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/net_transport.cpp
                ${CMAKE_CURRENT_SOURCE_DIR}/net_nic.cpp DEPENDS net des)
