import type { Hints, StoreTx } from '../../../src/kernel/plugin.ts';

/** Tells the gates of all threads and processes that a project, or one of its keys, is not what it was. */
export interface ProjectChanges {
  /** They hear of it when the transaction commits. */
  note(tx: StoreTx, projectId: string): void;
  /** The returned function ends it. */
  listen(forget: (projectId: string) => void): () => void;
}

const TOPIC = 'project';

export function createProjectChanges(hints: Hints): ProjectChanges {
  return {
    note: (tx, projectId) => tx.onCommit(() => hints.publish(TOPIC, { projectId })),
    listen: (forget) =>
      hints.subscribe(TOPIC, (message) => {
        const { projectId } = message as { readonly projectId?: unknown };
        if (typeof projectId === 'string') forget(projectId);
      }),
  };
}
