/** What agents read: /llms.txt, /agents.json, /skill.md, and every page as Markdown. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { EXAMPLES } from '../../../src/solana/schemas.ts';
import { cliArguments, startDaemon } from '../../helpers/daemon.ts';
import { startUpstream } from '../../helpers/upstream.ts';

test('llms.txt leads to pages, the pages to pages, and each is Markdown for those who ask for it', async (t) => {
  const upstream = await startUpstream();
  const daemon = await startDaemon({ chain: { rpcUrl: upstream.url }, config: { follow: { enabled: false } } });
  t.after(async () => {
    await daemon.stop();
    await upstream.stop();
  });
  const read = async (path: string, accept = '*/*') => {
    const response = await fetch(new URL(path, daemon.apiUrl), { headers: { accept } });
    return {
      status: response.status,
      type: response.headers.get('content-type') ?? '',
      vary: response.headers.get('vary') ?? '',
      text: await response.text(),
    };
  };
  const linksOf = (text: string) =>
    [...text.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/\]\(([^)\s#]+)/g)].map(([, link = '']) => link);
  const index = await read('/llms.txt');
  assert.match(index.type, /^text\/plain/);
  assert.match(index.text, /^# Parhelion\n\n> /);
  const links = linksOf(index.text).filter((link) => link !== '/mcp');
  assert.ok(links.length > 40, String(links.length));
  for (const link of links) assert.equal((await read(link)).status, 200, link);

  const pages = links.filter((link) => link.startsWith('/docs/guide/'));
  for (const page of pages) {
    const { text, type } = await read(page);
    assert.match(type, /^text\/markdown/, page);
    assert.match(text, /^(---|# )/, page);
    const inside = linksOf(text).filter((link) => !/^[a-z]+:/.test(link));
    for (const link of inside) assert.match(link, /^[a-z-]+\.md$/, `${page} links to ${link}`);
    for (const link of inside)
      assert.ok(link === 'index.md' || pages.includes(`/docs/guide/${link}`), `${page}: ${link}`);
    const asked = await read(page.replace(/md$/, 'html'), 'text/markdown, */*;q=0.5');
    assert.equal(asked.text, text, page);
    assert.match(asked.vary, /\bAccept\b(?!-)/, page);
  }
  const browser = await read('/docs/guide/webhooks.html', 'text/html,application/xhtml+xml,*/*;q=0.8');
  assert.match(browser.type, /^text\/html/);
  assert.match((await read('/docs/guide/webhooks.html', 'text/html, text/markdown;q=0')).type, /^text\/html/);

  const reference = await read('/docs', 'text/markdown');
  assert.match(reference.type, /^text\/markdown/);
  assert.equal(reference.text, (await read('/docs/reference.md')).text);
  for (const call of ['### POST /v0/webhooks', '### getTransfersByAddress', '### GET /v1/wallet/{wallet}/balances'])
    assert.ok(reference.text.includes(call), call);
  assert.match((await read('/docs', 'text/html')).type, /^text\/html/);
  // A page by its name alone leads to it.
  const page = await read('/docs/guide/webhooks', 'text/html');
  assert.deepEqual([page.status, /^text\/html/.test(page.type)], [200, true]);

  const agents = JSON.parse((await read('/agents.json')).text) as Record<string, Record<string, unknown>>;
  for (const address of [...Object.values(agents['documentation'] ?? {}), agents['interfaces']?.['openapi']])
    assert.equal((await read(String(address))).status, 200, String(address));
  assert.deepEqual(agents['interfaces']?.['mcp'], { url: '/mcp', transport: 'streamable-http' });
  assert.match((await read('/skill.md')).text, /^---\nname: parhelion\ndescription: .{40,}/);
});

test('an agent that does what the skill says is connected both ways, and finds every address, tool and prompt in it', async (t) => {
  const upstream = await startUpstream();
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: {
      follow: { enabled: false },
      plugins: ['access', 'mcp', 'proxy', 'signup', 'webhooks'],
      signup: { treasury: EXAMPLES.address, lamports: 1_000_000 },
    },
  });
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-skill-'));
  t.after(async () => {
    rmSync(folder, { recursive: true, force: true });
    await daemon.stop();
    await upstream.stop();
  });
  const file = join(folder, 'key');
  writeFileSync(file, `${daemon.key}\n`);
  const read = async (path: string) => await (await fetch(new URL(path, daemon.apiUrl))).text();
  const skill = (await read('/skill.md'))
    .replaceAll('https://SERVER', daemon.apiUrl)
    .replaceAll('KEY', daemon.key)
    .replaceAll('FILE', file);

  const settings = JSON.parse(/```json\n([\s\S]*?)```/.exec(skill)?.[1] ?? '') as {
    mcpServers: { parhelion: { url: string; headers: Record<string, string> } };
  };
  const { url, headers } = settings.mcpServers.parhelion;
  const over = new Client({ name: 'test', version: '1.0.0' });
  const http = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  await over.connect(http as Parameters<Client['connect']>[0]);
  const { tools } = await over.listTools();
  const { prompts } = await over.listPrompts();
  await over.close();

  const commands = [...skill.matchAll(/`parhelion ([^`]+)`/g)].map(([, words = '']) => words.split(' '));
  assert.equal(commands.length, 1);
  for (const args of commands) {
    const one = new Client({ name: 'test', version: '1.0.0' });
    const all = [...cliArguments, ...args];
    await one.connect(new StdioClientTransport({ command: process.execPath, args: all, stderr: 'ignore' }));
    assert.equal((await one.listTools()).tools.length, tools.length, args.join(' '));
    await one.close();
  }

  const known = new Set([...tools, ...prompts].map(({ name }) => name));
  const named = [...skill.matchAll(/^\|[^|]*\|([^|]*)\|$/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/(?<!view |direction )`([^`]+)`/g)].map(([, name = '']) => name),
  );
  assert.ok(named.length >= 10, String(named));
  for (const name of named) assert.ok(known.has(name), name);

  for (const [, path = ''] of skill.matchAll(/`(\/[a-z./-]+)`/g))
    assert.equal((await fetch(new URL(path, daemon.apiUrl))).status, 200, path);
  const { documentation, interfaces, signup } = JSON.parse(await read('/agents.json')) as {
    documentation: Record<string, string>;
    interfaces: { openapi: string; openrpc: string; jsonRpc: string; mcp: { url: string } };
    signup: { available: boolean; guide: string; terms: string };
  };
  const { openapi, openrpc, jsonRpc, mcp } = interfaces;
  for (const path of [...Object.values(documentation), openapi, openrpc, signup.guide, signup.terms])
    assert.equal((await fetch(new URL(path, daemon.apiUrl))).status, 200, path);
  for (const [path, method] of [
    [jsonRpc, 'getSlot'],
    [mcp.url, 'tools/list'],
  ] as const) {
    const response = await fetch(new URL(path, daemon.apiUrl), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': daemon.key },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method }),
    });
    assert.equal(response.status, 200, path);
  }
});
