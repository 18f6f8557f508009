import { defineRoute, type Route, Type } from '../../../src/kernel/plugin.ts';
import { JsonText, type Reply } from '../../../src/kernel/request.ts';
import { type AnswerParts, answer } from './answer.ts';
import { readBody } from './read-body.ts';
import { errorReply, questionSchema, replySchema } from './schemas.ts';

const HEADERS = { Deprecation: 'true' } as const;
/** For everything that is neither waiting for an upstream nor for documents. */
const MARGIN_MS = 5_000;
/** Mints and what they point to are read one after the other. */
const ROUNDS = 2;

/** `POST /v0/token-metadata`: what is known of up to 100 mints. */
export function tokenMetadataRoute(parts: AnswerParts): Route {
  const { config } = parts;
  return defineRoute({
    method: 'POST',
    path: '/v0/token-metadata',
    summary: 'What is known of up to 100 mints, on the chain and beside it (deprecated by the hosted service)',
    tag: 'Tokens',
    auth: 'key',
    errors: 'plain',
    price: { product: 'enhancedApi', credits: config.credits, groups: ['das'] },
    timeoutMs: ROUNDS * config.upstreamTimeoutMs + config.offChain.batchTimeoutMs + MARGIN_MS,
    // The first form is the documentation; the handler checks in its own words.
    body: Type.Union([questionSchema, Type.Unknown()]),
    replies: { 200: replySchema, 400: errorReply, 401: errorReply, 429: errorReply, 503: errorReply, 504: errorReply },
    handler({ body }) {
      const texts = answer(readBody(body), parts);
      // Without a promise where nothing has to be waited for.
      return texts instanceof Promise ? texts.then(replyOf) : replyOf(texts);
    },
  });
}

const replyOf = (texts: readonly string[]): Reply => ({
  status: 200,
  headers: HEADERS,
  json: new JsonText(`[${texts.join(',')}]`),
});
