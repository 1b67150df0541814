"""What figures are made of (`spec`, `palette`, `label_places`), and what draws them: matplotlib, or Plotly."""
