import assert from 'node:assert/strict';
import { createKeyPairSignerFromBytes, generateKeyPairSigner } from '@solana/kit';
import { getTransferSolInstruction } from '@solana-program/system';
import WebSocket from 'ws';

const LAMPORTS = 2_000_000n;

/** helius-sdk 2.x, unmodified: `fetch` and websockets to hosted names are sent to the daemon, as docs/how-to/clients.md shows. */
export default async ({ key, socketUrl, funded, ends }) => {
  const before = globalThis.WebSocket;
  // kit looks for it when it is loaded.
  globalThis.WebSocket = class extends WebSocket {
    constructor(url, ...rest) {
      super(/\.helius-rpc\.com$/.test(new URL(url).hostname) ? socketUrl : url, ...rest);
    }
  };
  ends.push(() => {
    globalThis.WebSocket = before;
  });
  const { createHelius } = await import('helius-sdk-2');
  const helius = createHelius({ apiKey: key, network: 'mainnet' });
  const signer = await createKeyPairSignerFromBytes(await funded());
  const { address } = await generateKeyPairSigner();
  const instruction = getTransferSolInstruction({ source: signer, destination: address, amount: LAMPORTS });
  const request = (version) => ({ signers: [signer], instructions: [instruction], version });
  let sent = 0n;
  const received = async () => {
    sent += LAMPORTS;
    assert.equal((await helius.getBalance(address, { commitment: 'confirmed' })).value, sent);
  };
  const flows = {};
  for (const version of ['legacy', 0]) {
    Object.assign(flows, {
      [`createSmartTransaction, version ${version}`]: async () => {
        const { priorityFee, units } = await helius.tx.createSmartTransaction(request(version));
        assert.ok(priorityFee >= 10_000 && units >= 1_000);
      },
      [`sendSmartTransaction, version ${version}`]: async () => {
        await helius.tx.sendSmartTransaction(request(version));
        await received();
      },
      [`sendTransactionWithSender, version ${version}`]: async () => {
        const how = { region: 'Default', tipAmount: 1_000_000, pollIntervalMs: 100 };
        await helius.tx.sendTransactionWithSender({ ...request(version), ...how });
        await received();
      },
    });
  }
  return flows;
};
