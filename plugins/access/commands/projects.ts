import type { Command } from '../../../src/kernel/plugin.ts';
import { DEFAULT_PLAN, PLANS } from '../plans.ts';
import { listProjects, type Projects } from '../projects.ts';

const JSON_OPTION = { flags: '--json', description: 'one JSON document' };

export function projectCommands(projects: Projects): Command[] {
  return [
    {
      path: ['projects', 'create'],
      summary: 'make a project',
      options: [
        { flags: '--name <text>', description: 'what people call it', required: true },
        { flags: '--plan <name>', description: `${PLANS.join(', ')}; without it ${DEFAULT_PLAN}` },
        { flags: '--wallet <address>', description: 'owner wallet, base58' },
        JSON_OPTION,
      ],
      async run(options, io) {
        const wallet = options['wallet'];
        const row = await io.store.write((tx) =>
          projects.create(tx, {
            name: String(options['name']),
            plan: String(options['plan'] ?? DEFAULT_PLAN),
            ...(typeof wallet === 'string' ? { wallet } : {}),
          }),
        );
        if (options['json'] === true) io.json({ id: row.id, name: row.name, plan: row.plan });
        else io.line(`project ${row.id} (${row.name}, plan ${row.plan})`);
      },
    },
    {
      path: ['projects', 'list'],
      summary: 'list the projects',
      options: [JSON_OPTION],
      async run(options, io) {
        const rows = await listProjects(io.store);
        if (options['json'] === true) {
          io.json(
            rows.map((row) => ({
              id: row.id,
              name: row.name,
              plan: row.plan,
              wallet: row.wallet,
              createdAt: row.created_at,
            })),
          );
          return;
        }
        for (const row of rows) io.line(`${row.id}  ${row.plan.padEnd(12)}  ${row.name}`);
        if (rows.length === 0) io.line('no projects');
      },
    },
  ];
}
