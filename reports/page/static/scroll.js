// Tables wider than the page: their edge fades while there is more to the side, so that nobody takes them for the whole.
function fadeWhereMore(box) {
  const mark = () => {
    const left = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("has-more", left > 4);
    box.classList.toggle("has-before", box.scrollLeft > 4);
  };
  box.addEventListener("scroll", mark, { passive: true });
  const watcher = new ResizeObserver(mark);
  watcher.observe(box);
  if (box.firstElementChild) watcher.observe(box.firstElementChild);
}
