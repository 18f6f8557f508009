import { Command, CommanderError, Option } from 'commander';
import { CodedError, messageOf } from '../lib/coded-error.ts';
import { EXIT } from '../runtime/errors.ts';
import type { CliCommand, CommandFlag, CommandValues } from './command.ts';
import { commandTable, commonFlags } from './command-table.ts';
import type { CliIo } from './io.ts';
import { loadPluginCommands } from './plugin-commands.ts';
import { readVersion } from './version.ts';

const EXIT_CODES = `
Exit codes: 0 done, 57 the database is of a newer version, 64 wrong usage, 70 a bug, 75 temporary (an upstream,
the database or the daemon does not answer, the disk is full), 78 configuration.`;

/** Runs one command line and returns the exit code: 0, 57, 64, 70, 75 or 78. */
export async function runCli(args: readonly string[], io: CliIo): Promise<number> {
  let exitCode: number = EXIT.ok;
  const program = new Command('parhelion')
    .description('Self-hosted data service for Solana')
    .version(readVersion())
    .addHelpText('after', EXIT_CODES)
    .exitOverride()
    .configureOutput({ writeOut: (text) => io.out(text.trimEnd()), writeErr: (text) => io.err(text.trimEnd()) });
  const add = (command: CliCommand) =>
    addCommand(program, command, async (values) => {
      const { run } = await command.load();
      exitCode = await run(values, io);
    });
  for (const command of commandTable) add(command);
  try {
    // Only if needed: finding the commands of plugins loads the plugins.
    if (!commandTable.some(({ path }) => path[0] === args[0])) {
      for (const command of await loadPluginCommands(args, io)) add(command);
    }
    await program.parseAsync([...args], { from: 'user' });
    return exitCode;
  } catch (error) {
    return report(error, io);
  }
}

function addCommand(program: Command, command: CliCommand, action: (values: CommandValues) => Promise<void>): void {
  let parent = program;
  for (const word of command.path.slice(0, -1)) {
    parent = parent.commands.find((candidate) => candidate.name() === word) ?? parent.command(word).exitOverride();
    // A command group has no description; list its commands.
    parent.description([...parent.commands.map((one) => one.name()), command.path.at(-1)].join(', '));
  }
  const leaf = parent.command(command.path.at(-1)!).description(command.summary).exitOverride();
  for (const flag of [...command.options, ...commonFlags]) addFlag(leaf, flag);
  if (command.help !== undefined) leaf.addHelpText('after', `\n${command.help}`);
  const { argument } = command;
  if (argument !== undefined) leaf.argument(`<${argument.name}>`, argument.description);
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

/** Prints an error: configuration problems one per line, a stack only if the error is a bug. */
function report(error: unknown, io: CliIo): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (error instanceof CodedError && error.exitCode !== undefined) {
    const problems = error.facts['problems'];
    if (Array.isArray(problems) && problems.length > 1) {
      io.err(`parhelion: ${error.code}: ${problems.length} problems`);
      for (const problem of problems) io.err(`  ${String(problem)}`);
    } else {
      io.err(`parhelion: ${error.code}: ${error.message}`);
    }
    return error.exitCode;
  }
  io.err(`parhelion: ${error instanceof Error ? (error.stack ?? error.message) : messageOf(error)}`);
  return EXIT.bug;
}
