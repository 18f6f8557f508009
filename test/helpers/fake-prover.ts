/** A prover over HTTP that makes no proofs: it answers with points of the curve, or with whatever a test says. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { answerOf, GENERATOR_G2, multipleG1 } from './bn254.ts';

export interface ProverRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: tests look at members of it.
  readonly body: any;
}

export interface FakeProver {
  readonly url: string;
  readonly requests: readonly ProverRequest[];
  /** Most requests that were there at the same time. */
  readonly most: () => number;
  /** What it answers from now on; `hold` answers nothing before `release`. */
  answer(status: number, text: string): void;
  hold(): void;
  release(): void;
  /** Breaks the connection. */
  cut(): void;
  close(): Promise<void>;
}

export async function startFakeProver(t: TestContext): Promise<FakeProver> {
  const proof = JSON.stringify(answerOf(multipleG1(3), GENERATOR_G2, multipleG1(4)));
  const requests: ProverRequest[] = [];
  let answer = { status: 200, text: proof };
  let isCutting = false;
  let gate: { readonly opened: Promise<void>; readonly open: () => void } | null = null;
  let open = 0;
  let most = 0;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    open += 1;
    most = Math.max(most, open);
    response.on('close', () => {
      open -= 1;
    });
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const body = JSON.parse(Buffer.concat(chunks).toString());
      requests.push({ path: `${request.method} ${request.url}`, headers: request.headers, body });
      if (isCutting) return void request.socket.destroy();
      await gate?.opened;
      response.writeHead(answer.status, { 'Content-Type': 'application/json' });
      response.end(answer.text);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  t.after(close);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    most: () => most,
    answer(status, text) {
      answer = { status, text };
    },
    hold() {
      let release = (): void => undefined;
      const opened = new Promise<void>((resolve) => {
        release = resolve;
      });
      gate = { opened, open: release };
    },
    release() {
      gate?.open();
      gate = null;
    },
    cut() {
      isCutting = true;
    },
    close,
  };
}
