// Light or dark: as the system has it, or as chosen here.

const dark = window.matchMedia("(prefers-color-scheme: dark)");

// Calls `changed` with "light" or "dark" at once and whenever that changes.
export function theme(fieldset, changed) {
  const root = document.documentElement;
  const apply = (choice) => {
    if (choice === "auto") delete root.dataset.theme;
    else root.dataset.theme = choice;
    changed(choice === "auto" ? (dark.matches ? "dark" : "light") : choice);
  };
  const chosen = () => fieldset.querySelector("input:checked").value;
  const kept = recall();
  const input = [...fieldset.querySelectorAll("input")].find(({ value }) => value === kept);
  if (input) input.checked = true;
  fieldset.addEventListener("change", () => {
    keep(chosen());
    apply(chosen());
  });
  dark.addEventListener("change", () => apply(chosen()));
  apply(chosen());
}

// A browser may refuse to keep anything; then it is asked anew each time.
function recall() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
}

function keep(choice) {
  try {
    localStorage.setItem("theme", choice);
  } catch {
    // As said above.
  }
}
