import type { Store } from '../../../src/ports/store.ts';
import type { Webhook } from '../model/webhook.ts';
import { hooksById } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';

/** Looks up webhooks that were asked for, those of one turn in one query. What cannot be read now is asked for again by whoever needs it. */
export function createHookQuestions(store: Store, learn: (hook: Webhook) => unknown): (webhookId: string) => void {
  const asked = new Set<string>();
  let isAnswering = false;

  async function answer(): Promise<void> {
    await Promise.resolve();
    while (asked.size > 0) {
      const ids = [...asked];
      // The store tells its trouble itself.
      const hooks = await hooksById(store.read as Db, store.dialect, ids).catch(() => []);
      for (const hook of hooks) learn(hook);
      for (const id of ids) asked.delete(id);
    }
    isAnswering = false;
  }

  return (webhookId) => {
    asked.add(webhookId);
    if (isAnswering) return;
    isAnswering = true;
    void answer();
  };
}
