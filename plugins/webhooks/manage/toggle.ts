import type { Webhook } from '../model/webhook.ts';
import { resetHealth } from '../store/health.ts';
import type { WebhookPatch } from '../store/hooks.ts';
import type { HookWrite, ManageContext } from './context.ts';

const HOUR_MS = 3_600_000;

/** What switching does to the row; nothing where the webhook is already there, so that a grace is not started again. */
export function togglePatch(hook: Webhook, active: boolean, now: number, graceHours: number): WebhookPatch {
  if (hook.active === active) return {};
  if (!active) return { active: false, disabledReason: 'user', disabledAt: now, graceUntil: null };
  return { active: true, disabledReason: null, disabledAt: null, graceUntil: now + graceHours * HOUR_MS };
}

/** What switching does beside the row: counters begin anew and what was kept goes out, or what still waits is dropped or kept. */
export async function afterToggle(context: ManageContext, write: HookWrite, active: boolean): Promise<void> {
  if (write.hook.active === active) return;
  if (!active) return await context.waiting.becameInactive(write.tx, write.hook);
  await resetHealth(write.db, write.hook.number);
  await context.waiting.becameActive(write.tx, write.hook);
}
