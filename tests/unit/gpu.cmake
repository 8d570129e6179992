kvlane_add_test(gpu LABEL unit
                SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/gpu_math.cpp ${CMAKE_CURRENT_SOURCE_DIR}/gpu_cost.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/gpu_layers.cpp ${CMAKE_CURRENT_SOURCE_DIR}/gpu_compute.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/gpu_table.cpp ${CMAKE_CURRENT_SOURCE_DIR}/gpu_factors.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/gpu_kernel_costs.cpp
                DEPENDS gpu des net)
# With the presets that ship: needs the YAML reader.
kvlane_add_test(gpu_presets LABEL unit SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/gpu_presets.cpp
                DEPENDS scenario gpu)
if(RAPIDCHECK_INCLUDE AND RAPIDCHECK_LIBRARY)
  kvlane_add_test(gpu_properties LABEL property SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/gpu_properties.cpp
                  DEPENDS scenario gpu LINK ${RAPIDCHECK_LIBRARY})
  target_include_directories(test_gpu_properties SYSTEM PRIVATE ${RAPIDCHECK_INCLUDE})
endif()
