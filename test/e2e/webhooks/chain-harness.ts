import { Keypair, LAMPORTS_PER_SOL } from '@solana/web3.js';
import { type Api, apiOf, startWebhookDaemon, type WebhookDaemon } from '../../conformance/webhooks/daemon.ts';
import { startChain, type TestChain } from '../../helpers/chain.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';

/** A daemon on a local chain, a receiver, and a wallet that pays. */
export interface ChainBed {
  readonly chain: TestChain;
  readonly daemon: WebhookDaemon;
  readonly receiver: Receiver;
  readonly api: Api;
  readonly payer: Keypair;
  stop(): Promise<void>;
}

export async function startChainBed(): Promise<ChainBed> {
  const payer = Keypair.generate();
  const chain = await startChain();
  await chain.fund(payer.publicKey.toBase58(), 100 * LAMPORTS_PER_SOL);
  const receiver = await startReceiver();
  const daemon = await startWebhookDaemon({ allowCidrs: ['127.0.0.0/8'], allowHttp: true }, { chain });
  return {
    chain,
    daemon,
    receiver,
    payer,
    api: apiOf(daemon.apiUrl, daemon.key),
    async stop() {
      await daemon.stop();
      await receiver.close();
      await chain.stop();
    },
  };
}
