import { Command, CommanderError, Option } from 'commander';
import { CodedError, EXIT, messageOf } from '../lib/coded-error.ts';
import { type CliCommand, type CliIo, type CommandFlag, type CommandValues, commonFlags } from './command.ts';
import { commandTable } from './command-table.ts';
import { keepCompiled } from './keep-compiled.ts';
import { versionText } from './package-files.ts';

const AFTER_HELP = `
Without a command, where there is no configuration, it runs a local chain, as \`parhelion serve\` does.

Exit codes: 0 done, 1 what was checked is not as it should be, 57 the database is of a newer version, 64 wrong usage,
70 a bug, 75 temporary (an upstream, the database or the daemon does not answer, the disk is full), 78 configuration.`;

/** Runs one command line and returns the exit code: 0, 1, 57, 64, 70, 75 or 78. */
export async function runCli(given: readonly string[], io: CliIo): Promise<number> {
  let args = given;
  // `help keys create` is `keys create --help`.
  if (given[0] === 'help') args = [...given.slice(1), '--help'];
  const asJson = args.includes('--json');
  let exitCode: number = EXIT.ok;
  const program = new Command('parhelion')
    .description('Self-hosted data service for Solana')
    .version(versionText())
    .helpCommand('help [command...]', 'show the help of a command')
    .addHelpText('after', AFTER_HELP)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.out(text.trimEnd()),
      writeErr: (text) => io.err(text.trimEnd()),
      // Reported below.
      outputError: () => {},
    });
  const add = (command: CliCommand) =>
    addCommand(program, command, async (values) => {
      const { run } = await command.load();
      exitCode = await run(values, io, () => allCommands(args, io));
    });
  for (const command of commandTable) add(command);
  try {
    if (given.length === 0 && (await isFirstTry(io))) {
      args = ['serve'];
      keepCompiled(io.env);
    }
    // Only if needed: finding the commands of plugins loads the plugins.
    if (!commandTable.some(({ path }) => path[0] === args[0])) {
      for (const command of await loadPluginCommands(args, io)) add(command);
    }
    await program.parseAsync([...args], { from: 'user' });
    return exitCode;
  } catch (error) {
    return report(error, io, asJson);
  }
}

/**
 * Whether the bare command starts the daemon: `npx parhelion` does what a newcomer expects. Where there is a configuration, it only shows the
 * help: nobody starts a second daemon of a service by a word.
 */
async function isFirstTry(io: CliIo): Promise<boolean> {
  const { hasConfiguration } = await import('./load-config.ts');
  return !hasConfiguration(io);
}

/** For documents about commands: those of a configuration that cannot be loaded are left out. */
async function allCommands(args: readonly string[], io: CliIo): Promise<readonly CliCommand[]> {
  return [...commandTable, ...(await loadPluginCommands([...args, '--help'], io))];
}

function addCommand(program: Command, command: CliCommand, action: (values: CommandValues) => Promise<void>): void {
  let parent = program;
  for (const word of command.path.slice(0, -1)) {
    parent = parent.commands.find((candidate) => candidate.name() === word) ?? parent.command(word).exitOverride();
    // A command group has no description; list its commands.
    parent.description(`commands: ${[...parent.commands.map((one) => one.name()), command.path.at(-1)].join(', ')}`);
  }
  const leaf = parent.command(command.path.at(-1)!, { hidden: command.isHidden === true });
  leaf.description(command.summary).exitOverride();
  for (const flag of [...command.options, ...commonFlags]) addFlag(leaf, flag);
  if (command.help !== undefined) leaf.addHelpText('after', `\n${command.help}`);
  const { argument } = command;
  if (argument !== undefined) {
    const made = leaf.createArgument(`<${argument.name}>`, argument.description);
    leaf.addArgument(argument.choices === undefined ? made : made.choices([...argument.choices]));
  }
  leaf.action((value: unknown) =>
    action({ ...leaf.opts<CommandValues>(), ...(argument === undefined ? {} : { [argument.name]: String(value) }) }),
  );
}

function addFlag(command: Command, { flags, description, required, choices, repeatable }: CommandFlag): void {
  const option = new Option(flags, description).makeOptionMandatory(required === true);
  if (choices !== undefined) option.choices([...choices]);
  if (repeatable === true)
    option.argParser((value: string, before?: string) => (before === undefined ? value : `${before},${value}`));
  command.addOption(option);
}

/**
 * Prints an error with its code: one line, followed by indented lines for the problems of a configuration, and by a stack only if it is a
 * bug. With `--json` it is one JSON document. Both go to standard error.
 */
function report(error: unknown, io: CliIo, asJson: boolean): number {
  // What commander throws without an exit code of its own was help; without a message it has printed the help of a group.
  if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
  const { code, message, exitCode, problems, stack } = describe(error);
  if (message === '') return exitCode;
  if (asJson) io.err(JSON.stringify({ code, message, exitCode, ...(problems.length > 1 ? { problems } : {}) }));
  else {
    io.err(`parhelion: ${code}: ${message}`);
    if (problems.length > 1) for (const problem of problems) io.err(`  ${problem}`);
    if (stack !== undefined) io.err(stack.replace(/^/gm, '  '));
  }
  return exitCode;
}

interface Description {
  readonly code: string;
  readonly message: string;
  readonly exitCode: number;
  readonly problems: readonly string[];
  readonly stack?: string | undefined;
}

function describe(error: unknown): Description {
  if (error instanceof CommanderError) {
    const isHelp = error.code === 'commander.help';
    const message = isHelp
      ? ''
      : oneLine(error.message.replace(/^error: /, '').replace(BAD_ARGUMENT, '$2 is "$1", and not one of '));
    return { code: 'CLI_USAGE', message, exitCode: EXIT.usage, problems: [] };
  }
  if (error instanceof CodedError && error.exitCode !== undefined) {
    const given = error.facts['problems'];
    const problems = Array.isArray(given) ? given.map(String) : [];
    const file = error.facts['file'] ?? 'the configuration';
    const message = problems.length > 1 ? `${file} has ${problems.length} errors` : oneLine(error.message);
    return { code: error.code, message, exitCode: error.exitCode, problems };
  }
  const stack = error instanceof Error ? error.stack : undefined;
  return { code: 'CLI_BUG', message: oneLine(messageOf(error)), exitCode: EXIT.bug, problems: [], stack };
}

/** `command-argument value 'x' is invalid for argument 'shell'. Allowed choices are a, b.` */
const BAD_ARGUMENT = /^command-argument value '(.*)' is invalid for argument '(\w+)'\. Allowed choices are /;

const oneLine = (text: string) => text.replaceAll(/\s*\n\s*/g, ' ');

/**
 * The commands of the configured plugins. For help, a configuration that cannot be loaded only hides them.
 */
async function loadPluginCommands(args: readonly string[], io: CliIo): Promise<readonly CliCommand[]> {
  const first = args[0];
  const wantsHelp = first === undefined || args.includes('--help') || args.includes('-h');
  if (first === '--version' || first === '-V') return [];
  try {
    const { pluginCommands } = await import('./plugin-commands.ts');
    return await pluginCommands(commonValues(args), io);
  } catch (error) {
    if (wantsHelp) return [];
    throw error;
  }
}

/** The values of the common flags, read before the command is known. */
function commonValues(args: readonly string[]): CommandValues {
  const given = (flag: string): string | undefined => {
    const joined = args.find((arg) => arg.startsWith(`${flag}=`));
    if (joined !== undefined) return joined.slice(flag.length + 1);
    const at = args.indexOf(flag);
    return at < 0 ? undefined : args[at + 1];
  };
  return { config: given('--config'), dataDir: given('--data-dir') };
}
