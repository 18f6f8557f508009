import { EXIT } from '../../lib/coded-error.ts';
import { type CliCommand, type CommandFlag, commonFlags, type RunCommand } from '../command.ts';
import { readVersion } from '../package-files.ts';

/** A place on the command line, and what may follow it. */
interface CommandPlace {
  /** `''`, `keys`, `keys create` */
  readonly path: string;
  readonly words: readonly { readonly word: string; readonly what: string }[];
}

/** An option that takes a value. The same name may take another value in another command. */
interface ValueOption {
  /** Path of the command that has this option; null: all commands. */
  readonly path: string | null;
  readonly name: string;
  readonly kind: 'file' | 'folder' | 'choice' | 'text';
  readonly choices: readonly string[];
}

export const completion: RunCommand = async (values, io, commands) => {
  const listed = (await commands()).filter(({ isHidden }) => isHidden !== true);
  const places = placesOf(listed);
  const options = optionsOf(listed);
  const write = { bash, zsh, fish }[String(values['shell'])] ?? bash;
  io.out(write(places, options).trimEnd());
  return EXIT.ok;
};

function placesOf(commands: readonly CliCommand[]): readonly CommandPlace[] {
  const places = new Map<string, Map<string, string>>([['', new Map()]]);
  for (const { path, summary, options, argument } of commands) {
    for (const [depth, word] of path.entries()) {
      const parent = path.slice(0, depth).join(' ');
      const words = places.get(parent) ?? new Map<string, string>();
      words.set(word, depth === path.length - 1 ? summary : `commands of ${word}`);
      places.set(parent, words);
    }
    const flags = [...options, ...commonFlags, { flags: '--help', description: 'show help' }];
    const given = (argument?.choices ?? []).map((choice) => [choice, argument?.description ?? ''] as const);
    places.set(
      path.join(' '),
      new Map([...given, ...flags.map((flag) => [firstFlag(flag), flag.description] as const)]),
    );
  }
  return [...places].map(([path, words]) => ({ path, words: [...words].map(([word, what]) => ({ word, what })) }));
}

const firstFlag = ({ flags }: Pick<CommandFlag, 'flags'>): string => flags.split(' ')[0] ?? flags;

function optionsOf(commands: readonly CliCommand[]): readonly ValueOption[] {
  const all = [
    ...commonFlags.map((flag) => ({ path: null, flag })),
    ...commands.flatMap(({ path, options }) => options.map((flag) => ({ path: path.join(' '), flag }))),
  ];
  return all.flatMap(({ path, flag }): ValueOption[] => {
    const [name = '', value] = flag.flags.split(' ');
    if (value === undefined) return [];
    const kind =
      flag.choices !== undefined ? 'choice' : value === '<file>' ? 'file' : value === '<folder>' ? 'folder' : 'text';
    return [{ path, name, kind, choices: flag.choices ?? [] }];
  });
}

/** A pattern of the shells for `COMMAND OPTION`. */
const pattern = ({ path, name }: ValueOption): string =>
  path === null ? `*${quoted(` ${name}`)}` : quoted(`${path} ${name}`);
const named = (options: readonly ValueOption[], kind: ValueOption['kind']): string =>
  options
    .filter((option) => option.kind === kind)
    .map(pattern)
    .join('|') || '--';
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
const known = (places: readonly CommandPlace[]): string =>
  places
    .map(({ path }) => path)
    .filter((path) => path !== '')
    .join('|');

/** The words before the cursor that are a command, as in zsh; values of options are no part of it. */
const pathLoop = (words: string) => `  for word in ${words}; do
    case "|$known|" in *"|\${path:+$path }$word|"*) path="\${path:+$path }$word" ;; esac
  done`;

function bash(places: readonly CommandPlace[], options: readonly ValueOption[]): string {
  const choices = options.filter(({ kind }) => kind === 'choice');
  return `# bash completion of parhelion, written by: parhelion completion bash
_parhelion() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" path= word words=
  local known=${quoted(known(places))}
${pathLoop(`"\${COMP_WORDS[@]:1:COMP_CWORD-1}"`)}
  COMPREPLY=()
  case "$path $prev" in
    ${named(options, 'file')}) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); return ;;
    ${named(options, 'folder')}) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur")); return ;;
${choices.map((option) => `    ${pattern(option)}) COMPREPLY=($(compgen -W ${quoted(option.choices.join(' '))} -- "$cur")); return ;;`).join('\n')}
    ${named(options, 'text')}) return ;;
  esac
  case "$path" in
${places.map(({ path, words }) => `    ${quoted(path)}) words=${quoted(words.map(({ word }) => word).join(' '))} ;;`).join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _parhelion parhelion
`;
}

function zsh(places: readonly CommandPlace[], options: readonly ValueOption[]): string {
  const choices = options.filter(({ kind }) => kind === 'choice');
  const item = ({ word, what }: CommandPlace['words'][number]) => quoted(`${word.replaceAll(':', '\\:')}:${what}`);
  return `#compdef parhelion
# zsh completion of parhelion, written by: parhelion completion zsh
_parhelion() {
  local path_= word known=${quoted(known(places))}
  local -a found
${pathLoop(`"\${(@)words[2,CURRENT-1]}"`).replaceAll('path', 'path_')}
  case "$path_ \${words[CURRENT-1]}" in
    ${named(options, 'file')}) _files; return ;;
    ${named(options, 'folder')}) _files -/; return ;;
${choices.map((option) => `    ${pattern(option)}) compadd -- ${option.choices.join(' ')}; return ;;`).join('\n')}
    ${named(options, 'text')}) return ;;
  esac
  case "$path_" in
${places.map(({ path, words }) => `    ${quoted(path)}) found=(${words.map(item).join(' ')}) ;;`).join('\n')}
  esac
  _describe parhelion found
}
if [ "\${funcstack[1]}" = _parhelion ]; then _parhelion "$@"; else compdef _parhelion parhelion; fi
`;
}

function fish(places: readonly CommandPlace[], options: readonly ValueOption[]): string {
  const valued = new Map(options.map((option) => [`${option.path ?? ''} ${option.name}`, option]));
  const lines = places.flatMap(({ path, words }) =>
    words.map(({ word, what }) => {
      const at = `complete -c parhelion -n "__parhelion_at ${quoted(path)}" -d ${quoted(what)}`;
      if (!word.startsWith('--')) return `${at} -f -a ${quoted(word)}`;
      const option = valued.get(`${path} ${word}`) ?? valued.get(` ${word}`);
      const value = {
        file: ' -r -F',
        folder: ' -r -F',
        text: ' -x',
        choice: ` -x -a ${quoted(option?.choices.join(' ') ?? '')}`,
      };
      return `${at} -l ${word.slice(2)}${option === undefined ? ' -f' : value[option.kind]}`;
    }),
  );
  return `# fish completion of parhelion, written by: parhelion completion fish
function __parhelion_at
  set -l known ${places.map(({ path }) => quoted(path)).join(' ')}
  set -l path ''
  for word in (commandline -opc)[2..-1]
    set -l next (string trim -- "$path $word")
    contains -- $next $known; and set path $next
  end
  test "$path" = "$argv[1]"
end
complete -c parhelion -f
${lines.join('\n')}
`;
}

/** Prints parhelion.1, for packagers: `parhelion man > parhelion.1`. */
export const manual: RunCommand = async (_values, io, commands) => {
  const listed = (await commands()).filter(({ isHidden }) => isHidden !== true);
  io.out(manualPage(listed));
  return EXIT.ok;
};

/** Text of troff: dashes are signs of a command line, and a line may not begin with a control character. */
const roff = (text: string): string =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('…', '...')
    .replace(/^([.'])/gm, '\\&$1');

const item = (head: string, text: string): string => `.TP\n${head}\n${roff(text)}`;

const flagItem = ({ flags, description, choices, required }: CommandFlag): string => {
  const [name = '', value] = flags.split(' ');
  const head = `.B ${roff(name)}${value === undefined ? '' : `\n.I ${roff(value.replace(/[<>]/g, ''))}`}`;
  const more = `${choices === undefined ? '' : ` (${choices.join(', ')})`}${required === true ? '; required' : ''}`;
  return `.TP\n${head.includes('\n') ? head.replace(/^\.B (.*)\n\.I (.*)$/, '.BI "$1 " $2') : head}\n${roff(description + more)}`;
};

function commandSection({ path, summary, options, argument, help }: CliCommand): string {
  const name = `${path.join(' ')}${argument === undefined ? '' : ` ${argument.name.toUpperCase()}`}`;
  return [
    `.SS ${roff(name)}`,
    roff(`${summary[0]!.toUpperCase()}${summary.slice(1)}.`),
    ...(help === undefined ? [] : ['.PP', roff(help)]),
    ...options.map(flagItem),
  ].join('\n');
}

function manualPage(commands: readonly CliCommand[]): string {
  return `.TH PARHELION 1 "" "parhelion ${readVersion()}" "User Commands"
.SH NAME
parhelion \\- self\\-hosted data service for Solana
.SH SYNOPSIS
.B parhelion
.I command
.RI [ options ]
.SH DESCRIPTION
${roff(`parhelion runs beside any Solana node or provider and serves wallet histories, token metadata, compressed accounts, webhooks and
API keys with limits, in the wire formats of the hosted Helius API. The command serve runs the daemon; the others configure, inspect and
manage it.`)}
.SH OPTIONS
All commands take these.
${[...commonFlags, { flags: '--help', description: 'show the help of the command' }].map(flagItem).join('\n')}
.SH COMMANDS
${commands.map(commandSection).join('\n')}
.SH ENVIRONMENT
${[
  item('.B PARHELION_CONFIG', 'configuration file; empty: none'),
  item('.B PARHELION_ROLE', 'roles of serve'),
  item(
    '.BI PARHELION_ SECTION __ KEY',
    'overrides a key of the configuration, such as PARHELION_HTTP__PORT; with _FILE at the end, its value is read from a file',
  ),
  item('.B SOLANA_RPC_URL', 'sets upstream.urls'),
].join('\n')}
.SH FILES
${[
  item('.I ./parhelion.yaml', 'configuration, if no other is named'),
  item('.I /etc/parhelion/parhelion.yaml', 'the same, if that file does not exist'),
].join('\n')}
.SH EXIT STATUS
${[
  item('.B 0', 'done'),
  item('.B 57', 'the database was migrated by a newer version'),
  item('.B 64', 'wrong usage'),
  item('.B 70', 'a bug'),
  item('.B 75', 'temporary: an upstream, the database or the daemon does not answer, or the disk is full'),
  item('.B 78', 'the configuration'),
].join('\n')}`;
}
