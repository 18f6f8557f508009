import { failure, idOf, type RpcResponse, readRequest } from '../rpc/dispatch.ts';
import { writeJson } from '../rpc/json.ts';
import type { LocalNode, Methods } from '../rpc/node.ts';
import { answerBody, answerItem, end, type Responder, type ServedCall } from '../rpc/server.ts';
import { answerUnder } from './answers.ts';
import type { FaultEngine } from './engine.ts';
import { createReverseGate } from './reverse-gate.ts';
import type { FaultRule } from './rule.ts';
import { sendUnder } from './transport.ts';

const TRANSPORT = new Set(['latency', 'status', 'truncate', 'garbage', 'oversize', 'reset', 'hang']);

interface Item {
  readonly value: unknown;
  readonly rule: FaultRule | null;
}

/** Answers calls under the rules; without rules it costs one look. */
export function createResponder(node: LocalNode, methods: Methods, engine: FaultEngine): Responder {
  const gate = createReverseGate();
  return async ({ request, response, body }: ServedCall) => {
    if (engine.isIdle()) return end(response, 200, writeJson(answerBody(node, methods, body)), 'application/json');
    const client = request.headers['user-agent'] ?? '';
    const isBatch = Array.isArray(body) && body.length > 0;
    const items = (isBatch ? (body as unknown[]) : [body]).map((value, item) => ({
      value,
      rule: ruleFor(engine, value, item, client),
    }));
    const answers = items.map((item) => answerOne(node, methods, item));
    const order = items.find(({ rule }) => rule?.action === 'duplicate' || rule?.action === 'outOfOrder')?.rule;
    if (!isBatch && order?.action === 'outOfOrder') await gate(order.window ?? 2);
    const sent = isBatch ? arranged(answers, order) : answers[0];
    const transport = items.find(({ rule }) => rule !== null && TRANSPORT.has(rule.action))?.rule;
    const refused = isBatch ? items.find(({ rule }) => rule?.action === 'noBatch')?.rule : undefined;
    await sendUnder(refused ?? transport ?? null, response, writeJson(sent), engine.random);
  };
}

/** Control calls are never subject to rules. */
function ruleFor(engine: FaultEngine, value: unknown, item: number, client: string): FaultRule | null {
  const { method, params } = (value ?? {}) as { method?: unknown; params?: unknown };
  if (typeof method !== 'string' || method.startsWith('local_')) return null;
  const first: unknown = Array.isArray(params) ? params[0] : undefined;
  const slot = typeof first === 'number' ? first : null;
  return engine.pick({ method, slot, subscription: null, item, client });
}

function answerOne(node: LocalNode, methods: Methods, { value, rule }: Item): RpcResponse {
  if (rule === null) return answerItem(node, methods, value);
  try {
    return answerUnder(rule, node, readRequest(value), () => answerItem(node, methods, value));
  } catch (error) {
    return failure(idOf(value), error);
  }
}

function arranged(answers: readonly RpcResponse[], order: FaultRule | null | undefined): readonly RpcResponse[] {
  if (order?.action === 'duplicate') return answers.flatMap((answer) => [answer, answer]);
  return order?.action === 'outOfOrder' ? answers.toReversed() : answers;
}
