# Writes OUTPUT from version.h.in at every build; unchanged text keeps its time stamp, so that nothing is rebuilt.
# Run as: cmake -DSOURCE_DIR=… -DOUTPUT=… -DVERSION=… -DBUILT_WITH=… -P version.cmake
set(COMMIT "$Format:%h$")  # filled in by `git archive` (.gitattributes)
if(COMMIT MATCHES "Format")
  set(COMMIT unknown)
  if(EXISTS ${SOURCE_DIR}/.git)
    execute_process(COMMAND git -c safe.directory=${SOURCE_DIR} describe --always --dirty=+ --abbrev=10 --match=nothing
                    WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT failed)
      set(COMMIT ${found})
    endif()
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/version.h.in ${OUTPUT} @ONLY)
