import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createServer, type Server } from 'node:net';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Connection, PublicKey } from '@solana/web3.js';
import { startLocalChain, startLocalChainProcess } from '../../../packages/local-chain/index.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { until } from '../../helpers/until.ts';

async function occupy(): Promise<{ port: number; server: Server }> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as { port: number }).port, server };
}

async function call(url: string, method: string, ...params: unknown[]) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  return ((await response.json()) as { result: never }).result;
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

suite('the chain as a process of its own', { skip: (await chainMissing()) ?? false }, () => {
  test('runs the demo, says what it is, and leaves nothing behind', async () => {
    const chain = await startLocalChainProcess({ seed: 'test', slotMs: 0, demo: true, lightAssets: false });
    let ended: string | null = null;
    chain.onExit((reason) => {
      ended = reason;
    });
    assert.equal(chain.genesisHash, '5daJNMtPGd5Hmdgbgx2zcSHkag6Ja2k8U1drnPq5VwLg');
    const info = (await call(chain.rpcUrl, 'local_info')) as Record<string, unknown>;
    assert.deepEqual(
      [info['kind'], info['cluster'], info['engine'], info['genesisHash'], info['fixtures']],
      ['local', 'local', 'litesvm 1.5.0', chain.genesisHash, 2],
    );
    assert.equal(chain.engine, info['engine']);
    assert.ok(chain.demo);
    const connection = new Connection(chain.rpcUrl, 'confirmed');
    const { wallets, mint, metadataMint } = chain.demo;
    const history = await connection.getSignaturesForAddress(new PublicKey(wallets['dave']!));
    assert.ok(history.some((item) => item.err !== null));
    assert.ok(history.at(-1)?.memo?.includes('faucet'));
    assert.equal((await connection.getTokenSupply(new PublicKey(mint))).value.amount, '999000000');
    assert.equal((await connection.getTokenSupply(new PublicKey(metadataMint))).value.uiAmountString, '42');
    const tip = await connection.getSlot();
    chain.goLive();
    await until(async () => (await connection.getSlot()) !== tip);
    await chain.stop();
    assert.equal(ended, null);
    assert.equal(isAlive(chain.pid), false);
    await assert.rejects(connection.getSlot());
  });

  test('an unexpected end is reported with its signal', async () => {
    const chain = await startLocalChainProcess({ lightAssets: false });
    const told = new Promise<string>((resolve) => chain.onExit(resolve));
    process.kill(chain.pid, 'SIGKILL');
    assert.equal(await told, 'signal SIGKILL');
  });

  test('it ends with a parent that was killed', async () => {
    const entry = new URL('../../../packages/local-chain/index.ts', import.meta.url).href;
    const script = `const { startLocalChainProcess } = await import(${JSON.stringify(entry)});
      console.log((await startLocalChainProcess({ lightAssets: false })).pid);`;
    const parent = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
      cwd: fileURLToPath(new URL('../../../', import.meta.url)),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const pid = Number(await new Promise((resolve) => parent.stdout.once('data', (data) => resolve(String(data)))));
    assert.equal(isAlive(pid), true);
    parent.kill('SIGKILL');
    await until(() => !isAlive(pid));
  });
});

suite('ports', { skip: (await chainMissing()) ?? false }, () => {
  test('a taken port gives way to a free one', async () => {
    const { port, server } = await occupy();
    const chain = await startLocalChain({ port, lightAssets: false });
    assert.notEqual(new URL(chain.rpcUrl).port, String(port));
    assert.equal(await call(chain.rpcUrl, 'getHealth'), 'ok');
    await chain.stop();
    server.close();
  });

  test('with a fixed port web3.js finds the WebSocket at port + 1 by itself', async () => {
    const warnings: string[] = [];
    const { port, server } = await occupy();
    await new Promise((resolve) => server.close(resolve));
    const chain = await startLocalChain({ port, lightAssets: false, warn: (text) => warnings.push(text) });
    const connection = new Connection(chain.rpcUrl, 'confirmed');
    if (warnings.length === 0) {
      const address = new PublicKey('GgapobpEiifXQjgWSoMzcJFq5mGy5Qnkuurc5hYLeeTt');
      let listener = -1;
      const told = new Promise<number>((resolve) => {
        listener = connection.onAccountChange(address, (account) => resolve(account.lamports));
      });
      const subscribed = (): boolean =>
        Object.values((connection as never)['_subscriptionsByHash']).some(
          (item) => (item as { state: string }).state === 'subscribed',
        );
      await until(() => subscribed());
      await chain.fund(address.toString(), 2_000_000);
      assert.equal(await told, 2_000_000);
      await connection.removeAccountChangeListener(listener);
    } else {
      console.error(`SKIPPED: port ${port + 1} belongs to somebody else`);
    }
    await chain.stop();
  });

  test('a taken second port is reported', async () => {
    const { port, server } = await occupy();
    const warnings: string[] = [];
    const chain = await startLocalChain({ port: port - 1, lightAssets: false, warn: (text) => warnings.push(text) });
    if (new URL(chain.rpcUrl).port === String(port - 1))
      assert.match(warnings.join(), new RegExp(`WebSocket port at ${port}`));
    await chain.stop();
    server.close();
  });
});
