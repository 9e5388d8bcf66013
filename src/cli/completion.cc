#include "cli/completion.h"

#include <fmt/format.h>

#include <vector>

namespace mainstay::cli {
namespace {

// What may follow after some words: subcommands and flags.
struct Choice {
  std::string path;  // "lease grant"; empty for the root
  std::string words;
};

void Collect(const Command& command,
             const std::string& path,
             const std::vector<FlagSpec>& inherited,
             std::vector<Choice>& into) {
  std::vector<FlagSpec> flags = inherited;
  flags.insert(flags.end(), command.inherited_flags.begin(), command.inherited_flags.end());
  std::string words;
  for (const Command& sub : command.subcommands) {
    words += sub.name + " ";
  }
  for (const std::vector<FlagSpec>& list : {command.flags, flags}) {
    for (const FlagSpec& flag : list) {
      words += fmt::format("--{} ", flag.name);
    }
  }
  into.push_back({path, words + "--help"});
  for (const Command& sub : command.subcommands) {
    Collect(sub, path.empty() ? sub.name : path + " " + sub.name, flags, into);
  }
}

// The shell's function finds the longest known path among the words typed and offers its list.
std::string Bash(const std::string& program, const std::vector<Choice>& choices) {
  std::string cases;
  for (const Choice& choice : choices) {
    cases += fmt::format("    '{}') words='{}' ;;\n", choice.path, choice.words);
  }
  return fmt::format(
      "_{0}_words() {{\n  case \"$1\" in\n{1}    *) return 1 ;;\n  esac\n}}\n"
      "_{0}_complete() {{\n"
      "  local words path='' next i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"${{COMP_WORDS[i]}}\" in -*) continue ;; esac\n"
      "    next=\"${{path:+$path }}${{COMP_WORDS[i]}}\"\n"
      "    _{0}_words \"$next\" && path=$next\n"
      "  done\n"
      "  _{0}_words \"$path\"\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"${{COMP_WORDS[COMP_CWORD]}}\"))\n"
      "}}\n"
      "complete -o default -F _{0}_complete {0}\n",
      program, cases);
}

std::string Fish(const std::string& program, const std::vector<Choice>& choices) {
  std::string out = fmt::format("complete -c {} -f\n", program);
  for (const Choice& choice : choices) {
    const std::string condition =
        choice.path.empty()
            ? "__fish_use_subcommand"
            : fmt::format("string match -q -- \"*{}*\" (commandline -p)", choice.path);
    out += fmt::format("complete -c {} -n '{}' -a '{}'\n", program, condition, choice.words);
  }
  return out;
}

std::string PowerShell(const std::string& program, const std::vector<Choice>& choices) {
  std::string table;
  for (const Choice& choice : choices) {
    table += fmt::format("    '{}' = '{}'\n", choice.path, choice.words);
  }
  return fmt::format(
      "Register-ArgumentCompleter -Native -CommandName '{}' -ScriptBlock {{\n"
      "  param($word, $ast, $position)\n"
      "  $known = @{{\n{}  }}\n"
      "  $path = ''\n"
      "  foreach ($element in $ast.CommandElements | Select-Object -Skip 1) {{\n"
      "    $next = (\"$path $element\").Trim()\n"
      "    if ($known.ContainsKey($next)) {{ $path = $next }}\n"
      "  }}\n"
      "  $known[$path] -split ' ' | Where-Object {{ $_ -like \"$word*\" }}\n"
      "}}\n",
      program, table);
}

}  // namespace

std::string CompletionScript(const std::string& program,
                             const Command& root,
                             std::string_view shell) {
  std::vector<Choice> choices;
  Collect(root, "", {}, choices);
  if (shell == "bash") {
    return Bash(program, choices);
  }
  if (shell == "zsh") {
    return "autoload -U +X bashcompinit && bashcompinit\n" + Bash(program, choices);
  }
  if (shell == "fish") {
    return Fish(program, choices);
  }
  if (shell == "powershell") {
    return PowerShell(program, choices);
  }
  return "";
}

}  // namespace mainstay::cli
