import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Keypair } from '@solana/web3.js';
import { until } from '../helpers/until.ts';

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** What a harmless call of a command has to give. `needs`: whether a daemon has to run, or must not. */
interface Case {
  readonly args: (made: Made) => readonly string[];
  readonly code: number;
  /** In what it writes. */
  readonly says: RegExp;
  readonly daemon?: 'runs';
  /** It goes on until it is interrupted. */
  readonly isEndless?: boolean;
  /** Ids in what it writes, for the cases that follow. */
  readonly makes?: keyof Made;
}

interface Made {
  readonly folder: string;
  readonly receiver: string;
  project: string;
  key: string;
  webhook: string;
}

const WALLET = '9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin';
const SIGNATURE = '1'.repeat(64);
const ofProject = ({ project }: Made) => ['--id', project];
const ofKey = ({ key }: Made) => ['--id', key];
const ofWebhook = ({ webhook }: Made) => ['--id', webhook];
const none = () => [];
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/;

/** In the order in which they run: later ones use what earlier ones have made. */
const COMMAND_CASES: Readonly<Record<string, Case>> = {
  init: { args: ({ folder }) => ['--output', join(folder, 'new.yaml')], code: 0, says: /new\.yaml is written/ },
  'check-config': { args: none, code: 0, says: /^configuration is fine/ },
  'dump-config': { args: none, code: 0, says: /^dataDir:/ },
  'list-plugins': { args: none, code: 0, says: /access .*projects, API keys/ },
  openapi: { args: none, code: 0, says: /"openapi": "3\.1\.0"/ },
  completion: { args: () => ['bash'], code: 0, says: /completion of parhelion/ },
  'plugin new': { args: () => ['a-plugin'], code: 0, says: /^written: / },
  migrate: { args: none, code: 0, says: /^applied access 1/m },
  backfill: { args: () => ['--list'], code: 0, says: /^no gaps$/m },
  'projects create': { args: () => ['--name', 'x', '--plan', 'free'], code: 0, says: /^project /, makes: 'project' },
  'projects list': { args: none, code: 0, says: /free +active .* x$/m },
  'projects show': { args: ofProject, code: 0, says: /plan +free/ },
  'projects set-plan': {
    args: (made) => [...ofProject(made), '--plan', 'developer'],
    code: 0,
    says: /has the plan developer/,
  },
  'projects grant': { args: (made) => [...ofProject(made), '--credits', '5'], code: 0, says: /has 5 additional/ },
  'projects rename': { args: (made) => [...ofProject(made), '--name', 'y'], code: 0, says: /is named y/ },
  'projects usage': { args: ofProject, code: 0, says: /^plan developer/ },
  'projects add-wallet': { args: (made) => [...ofProject(made), '--wallet', WALLET], code: 0, says: /is a member/ },
  'projects remove-wallet': {
    args: (made) => [...ofProject(made), '--wallet', WALLET],
    code: 0,
    says: /is no longer a member/,
  },
  'keys create': { args: ({ project }) => ['--project', project], code: 0, says: /^key / },
  'keys list': { args: none, code: 0, says: /active/, makes: 'key' },
  'keys allow-ip': { args: (made) => [...ofKey(made), '--ips', '127.0.0.1'], code: 0, says: /127\.0\.0\.1/ },
  'keys allow-origin': {
    args: (made) => [...ofKey(made), '--origins', 'https://a.example'],
    code: 0,
    says: /https:\/\/a\.example/,
  },
  'keys rotate': { args: ofKey, code: 0, says: /The old key ends/ },
  'keys revoke': { args: ofKey, code: 0, says: /is revoked/ },
  'webhooks create': {
    args: ({ project, receiver }) => ['--project', project, '--url', receiver],
    code: 0,
    says: /signing secret whsec_/,
    makes: 'webhook',
  },
  'webhooks list': { args: none, code: 0, says: /127\.0\.0\.1/ },
  'webhooks show': { args: ofWebhook, code: 0, says: /0 delivered, 0 failed/ },
  'webhooks test': { args: ofWebhook, code: 0, says: /200/ },
  'webhooks resend': { args: ofWebhook, code: 0, says: /^0 deliveries are sent now/ },
  'webhooks replay': { args: (made) => [...ofWebhook(made), '--since', '2026-01-01'], code: 0, says: /\b0\b/ },
  // With a webhook it shows nothing before there is a delivery.
  'webhooks tail': {
    args: () => ['--id', '00000000-0000-0000-0000-000000000000'],
    code: 64,
    says: /^parhelion: WEBHOOKS_USAGE: there is no webhook/,
  },
  'webhooks listen': { args: () => ['--port', '0'], code: 0, says: /^listening on http/, isEndless: true },
  'webhooks delete': { args: ofWebhook, code: 0, says: /is deleted/ },
  'wallet follow': { args: () => ['--address', WALLET], code: 0, says: /waits to be indexed/ },
  'wallet status': { args: none, code: 0, says: new RegExp(WALLET) },
  'wallet backfill': { args: () => ['--address', WALLET], code: 0, says: new RegExp(WALLET) },
  'wallet unfollow': { args: () => ['--address', WALLET], code: 0, says: new RegExp(WALLET) },
  'dashboard renew-token': { args: none, code: 0, says: /^op_/ },
  'operators create': { args: () => ['--name', 'ann'], code: 0, says: /^token op_/ },
  'operators list': { args: none, code: 0, says: /ann +viewer/ },
  'operators delete': { args: () => ['--name', 'ann'], code: 0, says: /is deleted/ },
  'compression verify': { args: none, code: 0, says: /^/ },
  'compression snapshot save': {
    args: ({ folder }) => ['--dir', join(folder, 'snapshots')],
    code: 75,
    says: /COMPRESSION_/,
  },
  'compression snapshot load': {
    args: ({ folder }) => ['--file', join(folder, 'none')],
    code: 64,
    says: /^parhelion: COMPRESSION_USAGE: there is no file/,
  },
  'compression snapshot serve': {
    args: ({ folder }) => ['--dir', folder, '--port', '0'],
    code: 0,
    says: /http:\/\/127\.0\.0\.1:\d+/,
    isEndless: true,
  },
  explain: { args: () => [SIGNATURE], code: 75, says: /^parhelion: PARSED_UNAVAILABLE/ },
  'projects enable': { args: ofProject, code: 0, says: /is enabled/ },
  'projects disable': { args: ofProject, code: 0, says: /is disabled/ },
  'projects delete': { args: ofProject, code: 0, says: /is deleted/ },
  backup: { args: ({ folder }) => ['--output', join(folder, 'backup.db')], code: 0, says: /^wrote / },
  restore: { args: ({ folder }) => ['--input', join(folder, 'backup.db')], code: 78, says: /already exists/ },
  'store copy': {
    args: ({ folder }) => [
      '--from',
      `sqlite:${join(folder, 'data/parhelion.db')}`,
      '--to',
      `sqlite:${join(folder, 'copy.db')}`,
    ],
    code: 0,
    says: /^projects: \d+ rows/m,
  },
  'ledger verify': { args: none, code: 78, says: /LEDGER_MISSING/ },
  'ledger export': {
    args: ({ folder }) => ['--format', 'car', '--output', join(folder, 'car')],
    code: 78,
    says: /LEDGER_MISSING/,
  },
  'ledger import': { args: ({ folder }) => ['--input', join(folder, 'car')], code: 78, says: /LEDGER_MISSING/ },
  // It has read the keypair when it finds that nobody answers.
  signup: {
    args: ({ folder }) => [
      '--url',
      'http://127.0.0.1:9',
      '--rpc',
      'http://127.0.0.1:9',
      '--keypair',
      join(folder, 'wallet.json'),
      '--max',
      '1',
    ],
    code: 75,
    says: /^parhelion: SIGNUP_SERVICE/,
  },
  'move plan': { args: () => ['--from', 'helius'], code: 64, says: /PARHELION_MOVE_FROM_KEY is needed/ },
  'move run': {
    args: () => ['--from', 'helius', '--url', 'http://127.0.0.1:9'],
    code: 64,
    says: /PARHELION_MOVE_FROM_KEY is needed/,
  },
  'move verify': {
    args: () => ['--from', 'helius', '--url', 'http://127.0.0.1:9'],
    code: 64,
    says: /PARHELION_MOVE_KEY is needed/,
  },
  'move cost': { args: none, code: 64, says: /one of --usage and --project is needed/ },
  mcp: {
    args: ({ folder }) => ['--url', 'http://127.0.0.1:9', '--key-file', join(folder, 'none')],
    code: 64,
    says: /^parhelion: MCP_USAGE: cannot read the key/,
  },
  serve: { args: none, code: 0, says: /^/, isEndless: true },
  status: { args: none, code: 0, says: /uptime|version|api/i, daemon: 'runs' },
  reload: { args: none, code: 0, says: /^/, daemon: 'runs' },
  healthcheck: { args: none, code: 0, says: /^/, daemon: 'runs' },
  doctor: { args: none, code: 75, says: /^ok +node/, daemon: 'runs' },
};

/** A program as it is installed: a file to run. */
function createProgram(file: string, cwd: string) {
  const begin = (args: readonly string[]) => {
    const env = { ...process.env, PARHELION_CONFIG: '' };
    const child = spawn(process.execPath, [file, ...args], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const said = { out: '', err: '' };
    child.stdout.on('data', (chunk: Buffer) => {
      said.out += chunk.toString();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      said.err += chunk.toString();
    });
    const ended = once(child, 'close').then(([code]): Ended => ({ code: code as number | null, ...said }));
    return { child: child as ChildProcess, said, ended };
  };
  const run = (args: readonly string[]): Promise<Ended> => begin(args).ended;

  /** Every command, as the program itself lists them: with options, which a word that only begins others has not. */
  async function commands(path: readonly string[] = []): Promise<readonly string[]> {
    const { out } = await run([...path, '--help']);
    const list = out.split('\nCommands:\n')[1]?.split('\n\n')[0];
    if (list === undefined) return [path.join(' ')];
    const found: string[] = [];
    for (const line of list.split('\n')) {
      const [, name, options] = /^ {2}([a-z][\w-]*)( \[options\])?/.exec(line) ?? [];
      if (name === undefined || name === 'help') continue;
      const whole = [...path, name];
      found.push(...(options === undefined ? await commands(whole) : [whole.join(' ')]));
    }
    return found;
  }
  return { begin, run, commands };
}

/** Runs every case with the program, in a folder of its own. Errors: AssertionError. */
export async function runEveryCommand(file: string, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const program = createProgram(file, folder);
  assert.deepEqual(
    [...(await program.commands())].sort(),
    Object.keys(COMMAND_CASES).sort(),
    'a case for each command',
  );
  const receiver = createServer((_, response) => response.end());
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const config = join(folder, 'parhelion.json');
  const settings = {
    dataDir: join(folder, 'data'),
    http: { port: 0 },
    admin: { port: 0 },
    follow: { enabled: false },
    upstream: { urls: ['http://127.0.0.1:9'] },
    webhooks: { allowHttp: true, allowPorts: null, allowCidrs: ['127.0.0.0/8'] },
  };
  writeFileSync(config, JSON.stringify(settings), { mode: 0o600 });
  writeFileSync(join(folder, 'wallet.json'), JSON.stringify([...Keypair.generate().secretKey]));
  const made: Made = { folder, receiver: url, project: '', key: '', webhook: '' };
  const withConfig = (command: string): readonly string[] =>
    ['init', 'signup', 'completion', 'plugin new'].includes(command) ? [] : ['--config', config];
  const check = (command: string, { code, out, err }: Ended, wanted: Case) => {
    assert.equal(code, wanted.code, `${command}: ${out}${err}`);
    assert.match(`${out}${err}`, wanted.says, command);
    assert.doesNotMatch(err, /\n\s+at .*\.js:/, `${command} shows a stack`);
    if (wanted.makes !== undefined) made[wanted.makes as 'key'] = idOf(`${out}${err}`);
  };
  try {
    let daemon: ReturnType<typeof program.begin> | null = null;
    for (const [command, wanted] of Object.entries(COMMAND_CASES)) {
      const args = [...command.split(' '), ...wanted.args(made), ...withConfig(command)];
      if (command === 'serve') {
        daemon = program.begin(args);
        const { said } = daemon;
        await until(
          async () => (await program.run(['healthcheck', ...withConfig('')])).code === 0 || said.err !== '',
          'it serves',
          60_000,
        );
      } else if (wanted.isEndless === true) {
        const running = program.begin(args);
        await until(() => wanted.says.test(running.said.out) || running.child.exitCode !== null, command, 60_000);
        running.child.kill('SIGINT');
        check(command, await running.ended, wanted);
      } else check(command, await program.run(args), wanted);
    }
    daemon?.child.kill('SIGTERM');
    assert.equal((await daemon?.ended)?.code, 0);
  } finally {
    receiver.close();
  }
}

/** A line begins with the id of what it is about. */
function idOf(text: string): string {
  const id = UUID.exec(text)?.[0];
  assert.ok(id !== undefined, text);
  return id;
}
