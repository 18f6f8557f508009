/** The tools of /mcp on a local chain, with the clients of both generations of the protocol. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client as ModernClient, StreamableHTTPClientTransport as ModernHttp } from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { chainMissing } from '../../helpers/chain.ts';
import { cliArguments } from '../../helpers/daemon.ts';
import { until } from '../../helpers/until.ts';
import { type Bed, HOSTILE_MEMO, startBed } from './harness.ts';
import { TASKS } from './tasks.ts';

const skip = (await chainMissing()) ?? false;

interface ToolResult {
  readonly isError?: boolean;
  readonly content: readonly { readonly type: string; readonly text: string }[];
  readonly structuredContent?: { readonly summary: string; readonly data: Record<string, unknown> };
}

/** The data of an answer; none of an error. */
const dataIn = ({ structuredContent, content }: ToolResult): Record<string, unknown> => {
  assert.ok(structuredContent !== undefined, content[0]?.text);
  return structuredContent.data;
};

const about = { name: 'test', version: '1.0.0' };

describe('tools for agents', { skip }, () => {
  let bed: Bed;
  let client: Client;

  before(async () => {
    bed = await startBed();
    client = await connect(bed.daemon.key);
  });
  after(async () => {
    await client?.close();
    await bed?.stop();
  });

  async function connect(key: string): Promise<Client> {
    const one = new Client(about);
    const requestInit = { headers: { 'X-Api-Key': key } };
    const transport = new StreamableHTTPClientTransport(new URL(`${bed.daemon.apiUrl}/mcp`), { requestInit });
    await one.connect(transport as Parameters<Client['connect']>[0]);
    // The client then checks the answers against the schemas of the tools.
    await one.listTools();
    return one;
  }

  /** The answer of a tool, after the index of an address is ready. */
  const call = async (name: string, input: object, by: Client = client): Promise<ToolResult> =>
    await until(
      async () => {
        const result = (await by.callTool({ name, arguments: { ...input } })) as unknown as ToolResult;
        return /Not ready: call again/.test(result.content[0]?.text ?? '') ? null : result;
      },
      `${name} ${JSON.stringify(input)}`,
    );

  for (const { question, steps } of TASKS)
    test(question, async () => {
      for (const { tool, input, finds } of steps) {
        const result = await call(tool, input(bed));
        assert.notEqual(result.isError, true, result.content[0]?.text);
        const { summary = '', data = {} } = result.structuredContent ?? {};
        finds({ summary, data, text: JSON.stringify(data) }, bed);
      }
    });

  test('every tool has schemas for its input and its answer, and says whether it changes anything', async () => {
    const { tools } = await client.listTools();
    assert.ok(tools.length >= 10 && tools.length <= 14, String(tools.length));
    for (const { name, description, inputSchema, outputSchema, annotations } of tools) {
      assert.ok((description ?? '').length > 60, name);
      assert.equal(inputSchema.type, 'object', name);
      assert.equal(outputSchema?.type, 'object', name);
      assert.equal(annotations?.readOnlyHint, name !== 'change_webhook', name);
    }
  });

  test('what strangers wrote stays inside its fence, with its unseen characters shown', async () => {
    const { content, structuredContent } = await call('transaction', { signature: bed.memo, expand: ['*'] });
    const [summary, data] = content.map(({ text }) => text);
    assert.doesNotMatch(summary ?? '', /Ignore all rules/);
    assert.equal(data?.split('</untrusted-data>').length, 2, 'only the fence of the server closes');
    const text = JSON.stringify(structuredContent);
    assert.match(text, /Ignore all rules/);
    assert.equal(text.includes('\u200b') || text.includes('\u{e0041}'), false);
    assert.match(HOSTILE_MEMO, /\u200b/);
  });

  test('a long list is cut, named in omitted, and whole when its path is given', async () => {
    const { payer } = bed;
    const short = await call('history', { address: payer, view: 'explained', limit: 5 });
    const { omitted } = short.structuredContent as unknown as { omitted: readonly { path: string; total: number }[] };
    assert.ok(omitted.length > 0, 'instructions have more accounts and data than are shown');
    const [first] = omitted;
    const whole = await call('history', { address: payer, view: 'explained', limit: 5, expand: [first?.path] });
    const left = (whole.structuredContent as unknown as { omitted: readonly { path: string }[] }).omitted;
    assert.equal(
      left.some(({ path }) => path === first?.path),
      false,
    );
  });

  test('a wrong input is an answer that says what is wrong, and costs nothing', async () => {
    const before = await credits();
    for (const [name, input, reason] of [
      ['wallet', {}, /wallet/],
      ['wallet', { wallet: 'x', view: 'everything' }, /balances/],
      ['transaction', { signature: bed.deposit, unknown: 1 }, /unknown/],
      ['webhooks', { view: 'webhook' }, /webhookID is required/],
      ['history', { address: bed.wallet, since: 'yesterday' }, /ISO 8601/],
    ] as const) {
      const { isError, content, structuredContent } = await call(name, input);
      assert.equal(isError, true, name);
      assert.match(content[0]?.text ?? '', reason);
      assert.equal(structuredContent, undefined);
    }
    assert.equal(await credits(), before);
  });

  async function credits(): Promise<number> {
    const url = `${bed.daemon.apiUrl}/v0/admin/projects/${bed.daemon.projectId}/usage?api-key=${bed.daemon.key}`;
    // The route has a rate of its own, and is asked often here.
    const { creditsUsed } = await until(async () => {
      const response = await fetch(url);
      return response.status === 200 && ((await response.json()) as { creditsUsed: number });
    });
    return creditsUsed;
  }

  test('a tool costs what its calls cost', async () => {
    const address = bed.wallet;
    const before = await credits();
    const body = JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'getTransactionsForAddress',
      params: [address, { limit: 3 }],
    });
    const post = () => fetch(`${bed.daemon.apiUrl}/?api-key=${bed.daemon.key}`, { method: 'POST', body });
    await until(async () => !('error' in ((await (await post()).json()) as object)));
    const direct = await credits();
    assert.ok(direct > before);
    await post();
    const price = (await credits()) - direct;
    const start = await credits();
    await call('history', { address, view: 'transactions', limit: 3 });
    assert.equal((await credits()) - start, price);
    await client.listTools();
    assert.equal((await credits()) - start, price, 'the list of the tools is free');
  });

  test('a key without a permission has no tool that needs it, and no code for a change', async () => {
    const limited = await connect(await bed.key('--permissions', 'rpc'));
    try {
      const refused = await call('webhooks', {}, limited);
      assert.equal(refused.isError, true);
      assert.match(refused.content[0]?.text ?? '', /403/);
      const settings = { webhookURL: bed.receiver.url, accountAddresses: [bed.wallet] };
      const change = await call('change_webhook', { action: 'create', settings }, limited);
      assert.equal(change.isError, true);
      assert.notEqual((await call('chain_status', {}, limited)).isError, true);
    } finally {
      await limited.close();
    }
  });

  test('without a valid key, and for pages of strangers, nothing is answered', async () => {
    const ask = (headers: Record<string, string>) =>
      fetch(`${bed.daemon.apiUrl}/mcp`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
      });
    assert.equal((await ask({})).status, 401);
    assert.equal((await ask({ 'x-api-key': 'wrong' })).status, 401);
    assert.equal((await ask({ authorization: `Bearer ${bed.daemon.key}` })).status, 200);
    assert.equal((await ask({ 'x-api-key': bed.daemon.key, origin: 'https://evil.example' })).status, 403);
    assert.equal((await ask({ 'x-api-key': bed.daemon.key, origin: 'http://localhost:6274' })).status, 200);
    const get = await fetch(`${bed.daemon.apiUrl}/mcp`, { headers: { 'x-api-key': bed.daemon.key } });
    assert.deepEqual([get.status, get.headers.get('allow')?.includes('POST')], [405, true]);
  });

  test('a request of another form is refused at once, also in a batch: the package (server 2.4.0) would not answer it', async () => {
    const post = async (message: unknown) => {
      const response = await fetch(`${bed.daemon.apiUrl}/mcp`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': bed.daemon.key },
        body: JSON.stringify(message),
      });
      assert.equal(response.status, 200);
      return (await response.json()) as unknown;
    };
    const good = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const refusal = (id: unknown) => ({
      jsonrpc: '2.0',
      id,
      error: {
        code: -32600,
        message: 'Invalid Request',
        data: { details: 'a request has jsonrpc, id, method and, where needed, params, which is an object' },
      },
    });
    for (const odd of [
      { params: [] },
      { params: null },
      { params: 'all' },
      { id: 1.5 },
      { unknown: 1 },
      { result: {} },
    ]) {
      const message = { ...good, ...odd };
      assert.deepEqual(await post(message), refusal(message.id), JSON.stringify(odd));
      assert.deepEqual(await post([message, good]), [refusal(message.id), { jsonrpc: '2.0', id: 1, result: {} }]);
    }
  });

  test('a call in an unusual form is answered like one in the usual form, or refused by the package', async () => {
    const post = async (params: unknown) => {
      const response = await fetch(`${bed.daemon.apiUrl}/mcp`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': bed.daemon.key },
        body: JSON.stringify({ jsonrpc: '2.0', id: 'a', method: 'tools/call', params }),
      });
      return (await response.json()) as { id: string; result?: ToolResult; error?: { code: number; message: string } };
    };
    const call = { name: 'account', arguments: { address: bed.mint, view: 'raw' } };
    const usual = await post(call);
    assert.match(usual.result?.structuredContent?.summary ?? '', /owned by the program/);
    const { result } = await post({ ...call, _meta: { progressToken: 7 } });
    assert.equal(result?.structuredContent?.summary, usual.result?.structuredContent?.summary);
    assert.equal((await post({ name: 'chain_status' })).result?.isError, undefined);
    assert.match((await post({ name: 'account' })).result?.content[0]?.text ?? '', /address/);
    for (const wrong of [
      { ...call, name: 'no_such_tool' },
      { ...call, name: '__proto__' },
      { ...call, arguments: 'all' },
      { ...call, arguments: [] },
      { arguments: {} },
    ]) {
      const { id, error } = await post(wrong);
      assert.deepEqual([id, error?.code], ['a', -32602], JSON.stringify(wrong));
    }
  });

  test('a page whose result is kept is answered like by the package, each time, with its id, alone and among others', async () => {
    const post = async (body: unknown, coding = 'identity') => {
      const response = await fetch(`${bed.daemon.apiUrl}/mcp`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'accept-encoding': coding, 'x-api-key': bed.daemon.key },
        body: JSON.stringify(body),
      });
      const text = await response.text();
      if (coding === 'identity') assert.equal(response.headers.get('content-length'), String(Buffer.byteLength(text)));
      return JSON.parse(text) as { id: unknown; result?: ToolResult };
    };
    const message = (id: unknown, page: string, more: object = {}) => ({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name: 'docs_search', arguments: { page }, ...more },
    });
    for (const page of ['first-webhook', 'webhooks', 'no-such-page']) {
      // The package answers a call with members that are not usual.
      const { result } = await post(message(0, page, { _meta: { progressToken: 7 } }));
      for (const id of [1, 'é"', 2, ''])
        assert.deepEqual(await post(message(id, page)), { jsonrpc: '2.0', id, result });
      assert.deepEqual((await post(message(1, page), 'gzip')).result, result);
      const batch = [message(3, page), { jsonrpc: '2.0', id: 4, method: 'ping' }, message(5, page)];
      assert.deepEqual(await post(batch), [
        { jsonrpc: '2.0', id: 3, result },
        { jsonrpc: '2.0', id: 4, result: {} },
        { jsonrpc: '2.0', id: 5, result },
      ]);
    }
    const markdown = await (await fetch(`${bed.daemon.apiUrl}/docs/guide/webhooks.md`)).text();
    const { result } = await post(message(6, 'webhooks'));
    assert.equal(result?.structuredContent?.data['markdown'], markdown);
    const { status } = await fetch(`${bed.daemon.apiUrl}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': 'another' },
      body: JSON.stringify(message(7, 'webhooks')),
    });
    assert.equal(status, 401, 'the key counts also for what is kept');
  });

  test('a change is said first, done only with its code, and a code fits nothing else', async () => {
    const settings = { webhookURL: bed.receiver.url, accountAddresses: [bed.wallet], transactionTypes: ['ANY'] };
    const said = await call('change_webhook', { action: 'create', settings });
    const { confirm, done } = dataIn(said) as { confirm: string; done: boolean };
    assert.equal(done, false);
    assert.deepEqual((await call('webhooks', {})).structuredContent?.data['items'], []);
    for (const wrong of [
      { action: 'create', settings, confirm: 'x' },
      { action: 'create', settings: { ...settings, webhookURL: 'http://127.0.0.1:1/' }, confirm },
    ])
      assert.match((await call('change_webhook', wrong)).content[0]?.text ?? '', /nothing was changed/);
    const made = await call('change_webhook', { action: 'create', settings, confirm });
    const { result } = dataIn(made) as { result: { webhookID: string; signingSecret: string } };
    assert.ok(result.signingSecret.length > 10);
    const again = await call('change_webhook', { action: 'create', settings, confirm });
    assert.equal(again.isError, true, 'the same code does not create a second one');
    const webhookID = result.webhookID;

    const signature = await bed.pay(12_345);
    await bed.receiver.waitFor(1);
    const why = await until(async () => {
      const found = await call('webhooks', { view: 'why', webhookID, signature });
      return /was delivered/.test(found.structuredContent?.summary ?? '') ? found : null;
    });
    assert.match(JSON.stringify(why.structuredContent?.data['reasons']), /"delivered"/);
    const missing = await call('webhooks', { view: 'why', webhookID, signature: bed.unsent });
    assert.match(missing.structuredContent?.summary ?? '', /not on this chain/);
    const failed = await call('webhooks', { view: 'why', webhookID, signature: bed.failed });
    assert.match(JSON.stringify(failed.structuredContent?.data['reasons']), /status_not_wanted/);

    const off = { action: 'delete', webhookID };
    const { confirm: last } = dataIn(await call('change_webhook', off)) as { confirm: string };
    assert.equal((await call('change_webhook', { ...off, confirm: last })).structuredContent?.data['done'], true);
    assert.deepEqual((await call('webhooks', {})).structuredContent?.data['items'], []);
  });

  test('resources and prompts', async () => {
    const { resources } = await client.listResources();
    for (const uri of ['parhelion://openapi.json', 'parhelion://docs/webhooks', 'parhelion://docs/agents'])
      assert.ok(
        resources.some((one) => one.uri === uri),
        uri,
      );
    for (const { uri } of resources) {
      const { contents } = await client.readResource({ uri });
      const [content] = contents as readonly { readonly text: string }[];
      assert.ok((content?.text.length ?? 0) > 100, uri);
    }
    const idl = await client.readResource({ uri: 'parhelion://idls/11111111111111111111111111111111' });
    assert.match(JSON.stringify(idl.contents), /transfer/);
    await assert.rejects(client.readResource({ uri: 'parhelion://docs/no-such-page' }));
    await assert.rejects(client.readResource({ uri: 'file:///etc/passwd' }));
    const { prompts } = await client.listPrompts();
    assert.equal(prompts.length, 3);
    for (const { name, arguments: given = [] } of prompts) {
      const values = Object.fromEntries(given.map((one) => [one.name, `value-of-${one.name}`]));
      const { messages } = await client.getPrompt({ name, arguments: values });
      const text = JSON.stringify(messages);
      for (const one of given) assert.ok(text.includes(`value-of-${one.name}`) || one.required !== true, one.name);
      await assert.rejects(client.getPrompt({ name, arguments: {} }));
    }
  });

  test('the client of 2026 finds and calls the same tools', async () => {
    for (const mode of ['legacy', 'auto'] as const) {
      const modern = new ModernClient(about, { versionNegotiation: { mode } });
      const requestInit = { headers: { 'X-Api-Key': bed.daemon.key } };
      await modern.connect(new ModernHttp(new URL(`${bed.daemon.apiUrl}/mcp`), { requestInit }));
      const { tools } = await modern.listTools();
      assert.equal(tools.length, (await client.listTools()).tools.length, mode);
      const result = (await modern.callTool({
        name: 'account',
        arguments: { address: bed.wallet },
      })) as unknown as ToolResult;
      assert.match(result.structuredContent?.summary ?? '', /SOL/, mode);
      await modern.close();
    }
  });

  test('a call of 2026 has the same answer in its usual form, which is answered without the package, and in any other', async () => {
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'agent', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': { roots: { listChanged: true } },
    };
    const usual = {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-method': 'tools/call',
      'mcp-protocol-version': '2026-07-28',
    };
    const ask = async (name: string, given: object, headers: Record<string, string> = {}, own: object = {}) => {
      const response = await fetch(`${bed.daemon.apiUrl}/mcp`, {
        method: 'POST',
        headers: { ...usual, 'mcp-name': name, 'x-api-key': bed.daemon.key, ...headers },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 'a"b',
          method: 'tools/call',
          params: { name, arguments: given, _meta: meta, ...own },
        }),
      });
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    const other = { accept: 'text/event-stream, application/json' };
    for (const [name, given] of [
      ['docs_search', { query: 'webhook' }],
      ['account', { address: 'x' }],
      ['account', { address: bed.wallet, nothing: 1 }],
      ['docs_search', { page: 'first-webhook' }],
      ['no_such_tool', {}],
    ] as const) {
      const [first, second] = [await ask(name, given), await ask(name, given, other)];
      assert.deepEqual(first, second, name);
    }
    const { result } = (await ask('docs_search', { query: 'webhook' })).body as { result: Record<string, object> };
    assert.deepEqual(result['resultType'], 'complete');
    assert.equal(
      (result['_meta'] as Record<string, { name: string }>)['io.modelcontextprotocol/serverInfo']?.name,
      'parhelion',
    );
    // Headers and `_meta` that contradict the call are for the package to refuse.
    for (const headers of [
      { 'mcp-name': 'usage' },
      { 'mcp-method': 'tools/list' },
      { 'mcp-protocol-version': '2099-01-01' },
      { 'content-type': 'text/plain' },
    ]) {
      const { body, status } = await ask('docs_search', { query: 'webhook' }, headers);
      assert.ok(status >= 400 && 'error' in body, JSON.stringify({ headers, status, body }).slice(0, 300));
    }
    for (const _meta of [{}, { ...meta, 'io.modelcontextprotocol/clientInfo': { name: 1 } }, 5]) {
      const { body } = await ask('docs_search', { query: 'webhook' }, {}, { _meta });
      assert.ok('error' in body, JSON.stringify(body).slice(0, 300));
    }
  });

  test('over stdio the same, with the key from a file; a daemon that is gone is an error of each call', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'parhelion-mcp-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, 'key');
    writeFileSync(file, `${bed.daemon.key}\n`);
    const start = async (url: string) => {
      const one = new Client(about);
      const args = [...cliArguments, 'mcp', '--url', url, '--key-file', file];
      await one.connect(new StdioClientTransport({ command: process.execPath, args, stderr: 'ignore' }));
      return one;
    };
    const over = await start(bed.daemon.apiUrl);
    try {
      const answers = await Promise.all(
        [bed.wallet, bed.payer, bed.stranger].map(
          async (address) =>
            (await over.callTool({ name: 'account', arguments: { address } })) as unknown as ToolResult,
        ),
      );
      assert.deepEqual(
        answers.map(({ structuredContent }) => structuredContent?.data['exists']),
        [true, true, false],
      );
    } finally {
      await over.close();
    }
    await assert.rejects(start('http://127.0.0.1:1'), /does not answer/);
  });
});
