/** What the guide has for agents beside its pages. */

/** `/llms.txt`: the pages with what each is about, in the form of llmstxt.org. */
export function contentsFor(pages, kinds) {
  const [front, ...others] = pages;
  const line = ({ name, title, about }) => `- [${title}](/docs/guide/${name}.md)${about === '' ? '' : `: ${about}`}`;
  const groups = kinds.map(
    ({ title }) =>
      `## ${title}\n\n${others
        .filter(({ kind }) => kind === title)
        .map(line)
        .join('\n')}`,
  );
  return `# Parhelion\n\n> ${front.about}\n\n${AGENT_NOTES}\n\n${groups.join('\n\n')}\n`;
}

/** By this an agent decides whether to read the skill. */
export const SKILL_HEAD = `---
name: parhelion
description: Answer questions about Solana (wallets, deposits, transactions, tokens, NFTs, programs) and set up webhooks with a parhelion server. Use it when somebody asks what happened on the chain, why a payment did not arrive, or wants to be told about an address.
---

`;

const AGENT_NOTES = `Calls need an API key, as \`X-Api-Key\`, \`Authorization: Bearer\` or \`?api-key=\`.

- [Tools for agents](/mcp): the Model Context Protocol over HTTP
- [OpenAPI](/openapi.json) and [OpenRPC](/openrpc.json): every call with its schema and an example that works
- [All calls on one page](/docs/reference.md)
- [Skill](/skill.md): how to use the service, for agents that load skills
- [agents.json](/agents.json): the same addresses for programs`;
