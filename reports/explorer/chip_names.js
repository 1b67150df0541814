// A chip that nobody knows: one sentence, and the chips whose names come near.

import { chipOf } from "./state.js";

/** Say that no chip has this name. */
export const unknownChip = (name) => `No chip here is called “${name}”.`;

/** Return the chips of the catalog that a problem of the API names as near, each once. */
export function nearestChips(catalog, problem) {
  const names = problem.fields.flatMap((one) => one.nearest ?? []);
  return [...new Set(names.map((name) => chipOf(catalog, name)).filter(Boolean))];
}
