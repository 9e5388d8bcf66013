# Build rules shared by every folder: flags, mainstay_library() and mainstay_test().

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(fmt REQUIRED)
find_package(Protobuf REQUIRED)
find_package(GTest REQUIRED)
find_package(PkgConfig REQUIRED)

add_library(mainstay_flags INTERFACE)
target_include_directories(mainstay_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_compile_options(mainstay_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Wimplicit-fallthrough
  -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(mainstay_flags INTERFACE -Wthread-safety)
else()
  # gcc 12 reports these from inside inlined standard library code at -O2, wrongly (GCC bugs 105329, 105651).
  target_compile_options(mainstay_flags INTERFACE -Wno-restrict -Wno-stringop-overflow)
  if(MAINSTAY_SANITIZER)
    # The instrumentation hides from gcc that a value was written: its own manual advises against this pair.
    target_compile_options(mainstay_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
if(MAINSTAY_WERROR)
  target_compile_options(mainstay_flags INTERFACE -Werror)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_options(mainstay_flags INTERFACE -g1)
endif()
if(MAINSTAY_SANITIZER STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -O1 -g1)
  add_link_options(-fsanitize=address,undefined)
elseif(MAINSTAY_SANITIZER STREQUAL "thread")
  add_compile_options(-fsanitize=thread -O1 -g1)
  add_link_options(-fsanitize=thread)
endif()
target_link_libraries(mainstay_flags INTERFACE Threads::Threads)

find_program(MOLD mold)
if(MOLD AND NOT MAINSTAY_SANITIZER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_link_options(-fuse-ld=mold)
endif()

# mainstay_library(name SRCS a.cc ... DEPS our-libraries... LIBS foreign-targets...)
# One folder of src/ is one library. It sees only what it names: <name>_link_test fails to link where a
# dependency was not declared, and the ctest <name>_headers compiles each header alone.
function(mainstay_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS;LIBS" ${ARGN})
  set(target ms_${name})
  add_library(${target} STATIC ${ARG_SRCS})
  target_link_libraries(${target} PUBLIC mainstay_flags)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${target} PUBLIC ms_${dep})
  endforeach()
  target_link_libraries(${target} PUBLIC ${ARG_LIBS})

  set(main ${CMAKE_BINARY_DIR}/link_test_main.cc)
  if(NOT EXISTS ${main})
    file(WRITE ${main} "int main() { return 0; }\n")
  endif()
  add_executable(${name}_link_test ${main})
  target_link_libraries(${name}_link_test PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,${target}>)
  add_test(NAME ${name}_links_alone COMMAND ${name}_link_test)
  add_test(NAME ${name}_headers
    COMMAND ${CMAKE_SOURCE_DIR}/tools/check_headers ${CMAKE_BINARY_DIR}/compile_commands.json
            ${CMAKE_CURRENT_SOURCE_DIR})
endfunction()

# What a sanitizer needs to hear in the ctest `name`.
function(mainstay_sanitized name)
  if(MAINSTAY_SANITIZER STREQUAL "thread")
    # Debian's Abseil, Protobuf and gRPC are not instrumented: what they do between themselves is not ours to judge.
    set_tests_properties(${name} PROPERTIES ENVIRONMENT TSAN_OPTIONS=ignore_noninstrumented_modules=1)
  endif()
endfunction()

# mainstay_test(name SRCS x_test.cc ... DEPS our-libraries... LIBS foreign-targets... [LABELS l...] [TIMEOUT s])
# A GoogleTest program; one ctest per program.
function(mainstay_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SRCS;DEPS;LIBS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE mainstay_flags GTest::gtest GTest::gmock GTest::gtest_main ${ARG_LIBS})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${name} PRIVATE ms_${dep})
  endforeach()
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  mainstay_sanitized(${name})
endfunction()
