/** The daemon of row G5b, in a process of its own with a stand-in for a node that has one mint. */

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { metadataAddress } from '../../../src/solana/addresses.ts';
import { METADATA_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { writeMetadata } from '../../helpers/write-metadata.ts';
import { writeMint } from '../../helpers/write-mint.ts';
import { PROXY_KEY } from './proxy-answers.ts';
import { BENCH_MINT } from './token-question.ts';

const FOR_THE_RUN_MS = 3_600_000;

const metadata = {
  updateAuthority: BENCH_MINT,
  mint: BENCH_MINT,
  name: 'Bench #1',
  symbol: 'BENCH',
  uri: 'https://example.com/1.json',
  sellerFeeBasisPoints: 500,
  creators: [1, 2, 3].map((share) => ({ address: BENCH_MINT, verified: share === 1, share })),
  primarySaleHappened: true,
  isMutable: true,
  editionNonce: 254,
  tokenStandard: 'NonFungible' as const,
  collection: { key: BENCH_MINT, verified: true },
  uses: null,
  collectionDetails: null,
  programmableConfig: null,
} as const;

function accountText(owner: string, data: Uint8Array): string {
  const text = Buffer.from(data).toString('base64');
  return `{"data":["${text}","base64"],"executable":false,"lamports":1461600,"owner":"${owner}","rentEpoch":18446744073709551615}`;
}

const accounts = new Map([
  [BENCH_MINT, accountText(TOKEN_PROGRAM, writeMint({ mintAuthority: BENCH_MINT }))],
  [metadataAddress(BENCH_MINT), accountText(METADATA_PROGRAM, writeMetadata(metadata, true).data)],
]);

function resultOf(method: string, params: readonly unknown[]): string {
  if (method === 'getGenesisHash') return '"11111111111111111111111111111112"';
  if (method !== 'getMultipleAccounts') return '1000';
  const found = (params[0] as readonly string[]).map((key) => accounts.get(key) ?? 'null');
  return `{"context":{"slot":1000},"value":[${found.join(',')}]}`;
}

const node = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const { method, params, id } = JSON.parse(Buffer.concat(chunks).toString() || '{}');
    response.setHeader('content-type', 'application/json');
    const result = resultOf(method, params);
    response.end(`{"jsonrpc":"2.0","result":${result},"id":${JSON.stringify(id ?? null)}}`);
  });
});
await new Promise<void>((resolve) => node.listen(0, '127.0.0.1', resolve));
const daemon = await startDaemon({
  key: PROXY_KEY,
  config: {
    upstream: { urls: [`http://127.0.0.1:${(node.address() as AddressInfo).port}`] },
    follow: { enabled: false },
    'token-metadata': { accountTtlMs: FOR_THE_RUN_MS },
  },
});
process.once('disconnect', () => process.exit(0));
process.send?.({ port: Number(new URL(daemon.apiUrl).port) });
