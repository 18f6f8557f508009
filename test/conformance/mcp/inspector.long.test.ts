/**
 * The command line of the official inspector against /mcp of a daemon. It is version 1, which still runs under Node 20; version 2 needs
 * Node 22.19.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { packageAbsent } from '../../helpers/packages.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';
import { type Bed, startBed } from './harness.ts';

const INSPECTOR = '@modelcontextprotocol/inspector';
const program = join(findProjectRoot(), 'test/helpers/inspector/node_modules', INSPECTOR, 'cli/build/cli.js');
const skip =
  (await chainMissing()) ??
  (existsSync(program) ? false : packageAbsent('the command line of the inspector', [INSPECTOR]));

interface Run {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

describe('the inspector', { skip }, () => {
  let bed: Bed;
  before(async () => {
    bed = await startBed();
  });
  after(async () => await bed?.stop());

  async function inspect(...args: readonly string[]): Promise<Run> {
    const given = ['--cli', `${bed.daemon.apiUrl}/mcp`, '--transport', 'http'];
    const child = spawn(process.execPath, [program, ...given, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { code: await exited, out, err };
  }

  /** What it prints, with the key of the daemon. */
  async function answer<T>(...args: readonly string[]): Promise<T> {
    const { code, out, err } = await inspect('--header', `X-Api-Key: ${bed.daemon.key}`, ...args);
    assert.equal(code, 0, err);
    return JSON.parse(out) as T;
  }

  test('lists the tools with their schemas', async () => {
    const { tools } = await answer<{
      tools: readonly { name: string; inputSchema: { type: string }; outputSchema?: { type: string } }[];
    }>('--method', 'tools/list');
    assert.ok(tools.length >= 10, String(tools.length));
    for (const { name, inputSchema, outputSchema } of tools)
      assert.deepEqual([inputSchema.type, outputSchema?.type], ['object', 'object'], name);
  });

  test('calls tools, with arguments of every kind', async () => {
    const call = async (name: string, ...args: readonly string[]) =>
      await answer<{
        isError?: boolean;
        content: readonly { text: string }[];
        structuredContent?: { summary: string; data: Record<string, unknown> };
      }>('--method', 'tools/call', '--tool-name', name, ...args.flatMap((one) => ['--tool-arg', one]));
    const account = await call('account', `address=${bed.mint}`, 'view=raw');
    assert.equal(account.structuredContent?.data['exists'], true);
    assert.match(account.content[0]?.text ?? '', /owned by the program/);
    const block = await call('chain_status', 'view=block', `slot=${bed.slot}`);
    assert.match(block.structuredContent?.summary ?? '', /has 1 transaction/);
    const whole = await call('transaction', `signature=${bed.deposit}`, 'expand=["*"]');
    assert.match(whole.structuredContent?.summary ?? '', /^Succeeded/);
    const wrong = await call('wallet', `wallet=${bed.wallet}`, 'view=everything');
    assert.equal(wrong.isError, true);
    assert.match(wrong.content[0]?.text ?? '', /view/);
  });

  test('lists and reads resources', async () => {
    const { resources } = await answer<{ resources: readonly { uri: string }[] }>('--method', 'resources/list');
    assert.ok(resources.some(({ uri }) => uri === 'parhelion://docs/webhooks'));
    const { contents } = await answer<{ contents: readonly { text: string }[] }>(
      '--method',
      'resources/read',
      '--uri',
      'parhelion://docs/webhooks',
    );
    assert.match(contents[0]?.text ?? '', /Delivery guarantee/);
    const { resourceTemplates } = await answer<{ resourceTemplates: readonly unknown[] }>(
      '--method',
      'resources/templates/list',
    );
    assert.equal(resourceTemplates.length, 2);
  });

  test('lists prompts and gets each with its arguments', async () => {
    const { prompts } = await answer<{
      prompts: readonly { name: string; arguments?: readonly { name: string; required?: boolean }[] }[];
    }>('--method', 'prompts/list');
    assert.equal(prompts.length, 3);
    for (const { name, arguments: wanted = [] } of prompts) {
      const args = wanted.flatMap((one) => ['--prompt-args', `${one.name}=value-of-${one.name}`]);
      const got = await answer<{ messages: readonly unknown[] }>(
        '--method',
        'prompts/get',
        '--prompt-name',
        name,
        ...args,
      );
      for (const one of wanted)
        if (one.required === true) assert.ok(JSON.stringify(got.messages).includes(`value-of-${one.name}`), name);
    }
  });

  test('says why, without a key and for a tool that is not there', async () => {
    const keyless = await inspect('--method', 'tools/list');
    assert.notEqual(keyless.code, 0);
    assert.match(keyless.err, /401|Unauthorized/);
    const unknown = await inspect(
      '--header',
      `X-Api-Key: ${bed.daemon.key}`,
      '--method',
      'tools/call',
      '--tool-name',
      'no_such_tool',
    );
    assert.match(unknown.err + unknown.out, /no_such_tool/);
  });
});
