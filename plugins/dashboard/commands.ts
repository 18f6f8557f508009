import { EXIT } from '../../src/lib/coded-error.ts';
import { tableLines, timeText } from '../../src/lib/table-lines.ts';
import { type Clock, CodedError, type Command, type CommandIo, type Random } from '../../src/plugin/plugin.ts';
import { OPERATOR_COMMANDS, renewTokenCommand } from './command-list.ts';
import { DASHBOARD_ERRORS, type DashboardConfig } from './config.ts';
import { createOperators, type Operators } from './operators.ts';
import { type AuditEntry, createAuditLog, renewOperatorToken } from './store.ts';

const COMMAND_LINE = { actor: 'command line', address: '' } as const;

/** Operators and their tokens. */
export function dashboardCommands(clock: Clock, random: Random, config: DashboardConfig): Command[] {
  async function audited<T>(
    { store }: Pick<CommandIo, 'store'>,
    entry: AuditEntry,
    work: (operators: Operators) => Promise<T>,
  ): Promise<T> {
    const operators = createOperators(store, clock, random);
    return await createAuditLog(store, clock, random).record(entry, () => work(operators));
  }
  return [
    {
      ...renewTokenCommand,
      async run(options, io) {
        if (config.operatorToken !== null)
          throw new CodedError('DASHBOARD_TOKEN_CONFIGURED', DASHBOARD_ERRORS.DASHBOARD_TOKEN_CONFIGURED, {
            exitCode: EXIT.usage,
          });
        const audit = createAuditLog(io.store, clock, random);
        const entry = { ...COMMAND_LINE, action: 'operator.renew-token', target: 'operator' };
        const token = await audit.record(entry, () => renewOperatorToken(io.store, clock, random));
        if (options['json'] === true) io.json({ token });
        else for (const line of [token, 'It is shown only once. Operator sessions end within a second.']) io.line(line);
      },
    },
    {
      ...OPERATOR_COMMANDS.create,
      async run(options, io) {
        const operator = { name: String(options['name']), role: String(options['role'] ?? 'viewer') };
        const entry = { ...COMMAND_LINE, action: 'operators.create', target: `${operator.name} (${operator.role})` };
        const token = await audited(io, entry, (operators) => operators.create(operator));
        if (options['json'] === true) io.json({ ...operator, token });
        else for (const line of [`token ${token}`, 'It is shown only once.']) io.line(line);
      },
    },
    {
      ...OPERATOR_COMMANDS.list,
      async run(options, io) {
        const operators = await createOperators(io.store, clock, random).list();
        if (options['json'] === true) return io.json(operators);
        if (operators.length === 0) return io.line('no named operators');
        const cells = operators.map(({ name, role, createdAt }) => [name, role, timeText(createdAt)]);
        for (const line of tableLines(['NAME', 'ROLE', 'CREATED (UTC)'], cells)) io.line(line);
      },
    },
    {
      ...OPERATOR_COMMANDS.delete,
      async run(options, io) {
        const name = String(options['name']);
        const entry = { ...COMMAND_LINE, action: 'operators.delete', target: name };
        await audited(io, entry, (operators) => operators.delete(name));
        if (options['json'] === true) io.json({ name, deleted: true });
        else io.line(`operator ${name} is deleted; its sessions end within a second`);
      },
    },
  ];
}
