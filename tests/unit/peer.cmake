# Skipped (77) where the other tools' predictions do not lie beside the source tree.
kvlane_add_test(peer_predictions LABEL unit SOURCES peer_predictions.cpp DEPENDS run)
