/** A tool whose call is not answered. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDaemon } from '../../helpers/daemon.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const METHOD = 'getAccountInfo';
const ADDRESS = '1'.repeat(32);
const BODY = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'account', arguments: { address: ADDRESS } },
});

for (const [why, timeoutMs] of [
  ['its time is over', 500],
  ['the client has gone', 60_000],
] as const)
  test(`a tool and its call end when ${why}`, async (t) => {
    const upstream = await startUpstream();
    upstream.on(METHOD, { fault: 'hang' });
    const daemon = await startDaemon({
      chain: { rpcUrl: upstream.url },
      config: { follow: { enabled: false }, rpc: { upstreamTimeoutMs: 600_000 }, mcp: { timeoutMs } },
    });
    t.after(async () => {
      await daemon.stop();
      await upstream.stop();
    });
    // The daemon itself reads another account.
    const calls = () => upstream.callsOf(METHOD).filter(({ params }) => (params as readonly unknown[])[0] === ADDRESS);
    const client = new AbortController();
    const answer = fetch(`${daemon.apiUrl}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': daemon.key },
      body: BODY,
      signal: client.signal,
    });
    await until(() => calls().length > 0, 'the call');
    if (timeoutMs > 1_000) {
      client.abort();
      await assert.rejects(answer);
    } else {
      const { result } = (await (await answer).json()) as { result: { isError: boolean; content: [{ text: string }] } };
      assert.deepEqual(
        [result.isError, result.content[0].text],
        [true, 'account took longer than 500 ms and was stopped.'],
      );
    }
    await until(() => calls().every((call) => call.aborted()), 'the end of the call');
  });
