/**
 * @solana/kit-plugin-rpc makes the address of the websocket out of the text of the HTTP address: of `http://127.0.0.1:8899` and
 * `http://localhost:8899` the next port, of every other text the same one. An address of either form is enough for it here.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { address, createClient, extendClient, generateKeyPairSigner } from '@solana/kit';
import { solanaRpc } from '@solana/kit-plugin-rpc';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { twoFreePorts } from '../../helpers/free-port.ts';

const SYSTEM = address('11111111111111111111111111111111');
const LAMPORTS = 5_000_000_000;
const SENT = 5_000_000;
/** The port that the plugin knows by its text. */
const KNOWN_PORT = 8_899;

/** Data of a System transfer. */
function transferData(amount: number): Uint8Array {
  const data = new DataView(new ArrayBuffer(12));
  data.setUint32(0, 2, true);
  data.setBigUint64(4, BigInt(amount), true);
  return new Uint8Array(data.buffer);
}

test('kit-plugin-rpc sends and confirms by one address, whichever port it takes for the websocket', {
  skip: (await chainMissing()) ?? false,
  timeout: 60_000,
}, async (t) => {
  const chain = await startChain({ slotMs: 200, finalityDepth: 4, time: { kind: 'wall' } });
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-kit-plugin-'));
  const plugins = ['access', 'proxy'];
  // The known texts have no place for a key: such calls are those of the first project.
  const first = await startDaemon({ chain, dataDir, config: { plugins } });
  await first.stop();
  const port = await twoFreePorts();
  const daemon = await startDaemon({
    chain,
    dataDir,
    key: first.key,
    config: {
      plugins,
      http: { port },
      access: { anonymous: { projectId: first.projectId, ratePerSecondPerIp: 1_000 } },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
    rmSync(dataDir, { recursive: true });
  });
  // Another program may have the known port here: who dials it, or the next one, gets ours.
  const dialled: number[] = [];
  const connect = net.connect;
  t.mock.method(net, 'connect', (options: net.TcpNetConnectOpts, ...rest: [() => void]) => {
    const asked = Number(options.port);
    const isKnown = asked === KNOWN_PORT || asked === KNOWN_PORT + 1;
    const given = isKnown ? { ...options, host: '127.0.0.1', port: port + asked - KNOWN_PORT } : options;
    dialled.push(Number(given.port));
    return connect(given, ...rest);
  });

  for (const [rpcUrl, wanted] of [
    [`http://127.0.0.1:${KNOWN_PORT}`, [port, port + 1]],
    [`http://localhost:${KNOWN_PORT}`, [port, port + 1]],
    [`http://127.0.0.1:${KNOWN_PORT}/`, [port]],
    [`${daemon.apiUrl}/?api-key=${daemon.key}`, [port]],
  ] as const)
    await t.test(rpcUrl.replace(daemon.key, 'KEY').replace(String(port), 'PORT'), async () => {
      dialled.length = 0;
      const payer = await generateKeyPairSigner();
      await chain.fund(payer.address, LAMPORTS);
      const to = await generateKeyPairSigner();
      const client = createClient()
        .use((one) => extendClient(one, { payer }))
        .use(solanaRpc({ rpcUrl }));
      const accounts = [
        { address: payer.address, role: 3 },
        { address: to.address, role: 1 },
      ];
      await client.sendTransaction([{ programAddress: SYSTEM, accounts, data: transferData(SENT) }]);
      const { value } = await client.rpc.getBalance(to.address, { commitment: 'confirmed' }).send();
      assert.equal(Number(value), SENT);
      const ofOurs = new Set(dialled.filter((one) => one === port || one === port + 1));
      assert.deepEqual([...ofOurs].toSorted(), wanted);
    });
});
