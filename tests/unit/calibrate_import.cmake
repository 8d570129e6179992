set(folder ${CMAKE_CURRENT_SOURCE_DIR}/calibrate)
kvlane_add_test(calibrate_import LABEL unit
                SOURCES ${folder}/import_csv.cpp ${folder}/import_kernels.cpp ${folder}/import_engines.cpp
                        ${folder}/import_links.cpp ${folder}/import_errors.cpp ${folder}/import_artefacts.cpp
                        ${folder}/import_folder.cpp
                DEPENDS calibrate_import)
# Skipped (77) where the published tables do not lie beside the source tree.
kvlane_add_test(calibrate_import_published LABEL unit SOURCES ${folder}/import_published.cpp
                DEPENDS calibrate_import)
