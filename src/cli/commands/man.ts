import { EXIT } from '../../runtime/errors.ts';
import { type CliCommand, type CommandFlag, commonFlags, type RunCommand } from '../command.ts';
import { readVersion } from '../package-files.ts';

/** Prints parhelion.1, for packagers: `parhelion man > parhelion.1`. */
export const run: RunCommand = async (_values, io, commands) => {
  const listed = (await commands()).filter(({ isHidden }) => isHidden !== true);
  io.out(page(listed));
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

function page(commands: readonly CliCommand[]): string {
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
